package nomad

import "strings"

// feature is something that a job may ask for and this version does not do.
type feature[T any] struct {
	name string
	used func(T) bool
}

// absent is what is said of each.
const absent = "%s not supported by this version: remove what asks for it"

// What jobs, groups and tasks ask for that later versions will do. A job that
// asks for one of these is refused by its name, never run without it.
var (
	absentForJobs = []feature[*Job]{
		{"periodic blocks are", func(j *Job) bool { return j.Periodic != nil }},
		{"multiregion blocks are", func(j *Job) bool { return j.Multiregion != nil }},
		{"Consul namespaces are", func(j *Job) bool { return j.ConsulNamespace != "" }},
		{"Vault namespaces are", func(j *Job) bool { return j.VaultNamespace != "" }},
	}
	absentForGroups = []feature[*TaskGroup]{
		{"service blocks are", func(tg *TaskGroup) bool { return len(tg.Services) > 0 }},
		{"scaling blocks are", func(tg *TaskGroup) bool { return tg.Scaling != nil }},
		{"consul blocks are", func(tg *TaskGroup) bool { return tg.Consul != nil }},
		{"disconnect blocks are", func(tg *TaskGroup) bool { return tg.Disconnect != nil }},
		{"stop_after_client_disconnect is", func(tg *TaskGroup) bool { return tg.StopAfterClientDisconnect != nil }},
		{"max_client_disconnect is", func(tg *TaskGroup) bool { return tg.MaxClientDisconnect != nil }},
		{"prevent_reschedule_on_lost is", func(tg *TaskGroup) bool { return tg.PreventRescheduleOnLost }},
		{"max_run_duration is", func(tg *TaskGroup) bool { return tg.MaxRunDuration != nil }},
		{"sticky in ephemeral_disk is", func(tg *TaskGroup) bool { return tg.EphemeralDisk != nil && tg.EphemeralDisk.Sticky }},
		{"migrate in ephemeral_disk is", func(tg *TaskGroup) bool { return tg.EphemeralDisk != nil && tg.EphemeralDisk.Migrate }},
		{"canary in update is", func(tg *TaskGroup) bool { return tg.Update != nil && tg.Update.Canary != 0 }},
		{"auto_revert in update is", func(tg *TaskGroup) bool { return tg.Update != nil && tg.Update.AutoRevert }},
		{"auto_promote in update is", func(tg *TaskGroup) bool { return tg.Update != nil && tg.Update.AutoPromote }},
		{"health_check = \"manual\" in update is", func(tg *TaskGroup) bool {
			return tg.Update != nil && tg.Update.HealthCheck == UpdateStrategyHealthCheck_Manual
		}},
	}
	absentForNetworks = []feature[*NetworkResource]{
		{"network modes other than \"host\" and \"none\" (bridge, cni/...) are", func(n *NetworkResource) bool {
			return n.Mode == NetworkModeBridge || strings.HasPrefix(n.Mode, "cni/")
		}},
		{"cni blocks in network are", func(n *NetworkResource) bool { return n.CNI != nil }},
		{"hostname in network is", func(n *NetworkResource) bool { return n.Hostname != "" }},
	}
	absentForTasks = []feature[*Task]{
		{"service blocks are", func(t *Task) bool { return len(t.Services) > 0 }},
		{"template blocks are", func(t *Task) bool { return len(t.Templates) > 0 }},
		{"artifact blocks are", func(t *Task) bool { return len(t.Artifacts) > 0 }},
		{"vault blocks are", func(t *Task) bool { return t.Vault != nil }},
		{"consul blocks are", func(t *Task) bool { return t.Consul != nil }},
		{"csi_plugin blocks are", func(t *Task) bool { return t.CSIPluginConfig != nil }},
		{"scaling blocks are", func(t *Task) bool { return len(t.ScalingPolicies) > 0 }},
		{"secret blocks are", func(t *Task) bool { return len(t.Secrets) > 0 }},
		{"action blocks are", func(t *Task) bool { return len(t.Actions) > 0 }},
		{"schedule blocks are", func(t *Task) bool { return t.Schedule != nil }},
		{"the kinds of tasks that Consul Connect makes are", func(t *Task) bool { return t.Kind != "" }},
		{"device blocks in resources are", func(t *Task) bool { return t.Resources != nil && len(t.Resources.Devices) > 0 }},
		{"numa blocks in resources (other than affinity = \"none\") are", usesNUMA},
	}
)

func usesNUMA(t *Task) bool {
	if t.Resources == nil || t.Resources.NUMA == nil {
		return false
	}
	n := t.Resources.NUMA
	return n.Affinity != "" && n.Affinity != NoneNUMA || len(n.Devices) > 0
}

// refuseAbsent adds a fault for each feature that v uses.
func refuseAbsent[T any](f *faults, list []feature[T], v T) {
	for _, ft := range list {
		if ft.used(v) {
			f.add(absent, ft.name)
		}
	}
}

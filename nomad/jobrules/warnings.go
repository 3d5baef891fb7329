package jobrules

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// Warnings returns warnings about options of a canonical job that are valid but probably unintended, maxFaults at most.
func Warnings(j *nomad.Job) []string {
	var out []string
	for _, tg := range j.TaskGroups {
		at := Place(j.ID, tg.Name, "")
		if tg.Update != nil && (j.Type == nomad.JobTypeBatch || j.Type == nomad.JobTypeSysBatch) {
			out = append(out, at+": update has no effect on "+j.Type+" jobs")
		}
		if u := tg.Update; u != nil && u.Canary > 0 && (j.Type == nomad.JobTypeService || j.Type == nomad.JobTypeSystem) {
			out = append(out, canaryWarnings(u, at, j.Type)...)
		}
		if r := tg.ReschedulePolicy; r != nil && r.Unlimited && r.Attempts > 0 {
			out = append(out, at+": attempts of reschedule have no effect while unlimited is true")
		}
		for _, old := range []struct {
			name string
			set  bool
		}{
			{"max_client_disconnect", tg.MaxClientDisconnect != nil},
			{"stop_after_client_disconnect", tg.StopAfterClientDisconnect != nil},
			{"prevent_reschedule_on_lost", tg.PreventRescheduleOnLost},
		} {
			if old.set {
				out = append(out, at+": "+old.name+" has no effect: use a disconnect block")
			}
		}
		for _, n := range tg.Networks {
			if n.MBits != 0 {
				out = append(out, at+": mbits of network has no effect")
			}
		}
		out = append(out, serviceWarnings(tg.Services, at)...)
		for _, t := range tg.Tasks {
			task := Place(j.ID, tg.Name, t.Name)
			out = append(out, serviceWarnings(t.Services, task)...)
			out = append(out, warnings(t, task)...)
		}
	}
	return out[:min(len(out), maxFaults)]
}

// serviceWarnings returns warnings about fields of services that have an effect with Consul only.
func serviceWarnings(list []*nomad.Service, at string) (out []string) {
	for _, s := range list {
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"meta", len(s.Meta) > 0},
			{"canary_meta", len(s.CanaryMeta) > 0},
			{"tagged_addresses", len(s.TaggedAddresses) > 0},
			{"weights", s.Weights != nil},
			{"enable_tag_override", s.EnableTagOverride},
			{"identity", s.Identity != nil},
		} {
			if field.set {
				out = append(out, fmt.Sprintf("%s, service %q: %s has no effect with provider \"nomad\"", at, s.Name, field.name))
			}
		}
	}
	return out
}

// canaryWarnings returns warnings about an update block with canaries.
func canaryWarnings(u *nomad.UpdateStrategy, at, jobType string) (out []string) {
	if u.MaxParallel == 0 {
		out = append(out, at+": canary has no effect while max_parallel is 0: updates have no deployment")
	}
	if jobType == nomad.JobTypeSystem && u.Canary > 100 {
		out = append(out, fmt.Sprintf("%s: canary is %d: in a system job it is a percentage, and more than 100 has no further effect", at,
			u.Canary))
	}
	return out
}

func warnings(t *nomad.Task, at string) []string {
	var out []string
	if t.Resources.IOPS != 0 || t.Resources.DiskMB != 0 {
		out = append(out, at+": iops and disk of resources have no effect: use ephemeral_disk of the group")
	}
	if n := t.Resources.NUMA; n != nil && n.Affinity != "" && n.Affinity != nomad.NoneNUMA && t.Resources.Cores == 0 {
		out = append(out, at+": affinity of numa has no effect without cores")
	}
	if r := t.RestartPolicy; r != nil && exceedsInterval(r) {
		out = append(out, fmt.Sprintf("%s: restart: %d attempts with a delay of %s take longer than the interval of %s, so the task is restarted without limit: increase interval",
			at, r.Attempts, r.Delay, r.Interval))
	}
	if len(t.Resources.Networks) > 0 {
		out = append(out, at+": network in resources is deprecated: use a network block of the group")
	}
	for _, id := range append([]*nomad.WorkloadIdentity{t.Identity}, t.Identities...) {
		named := id.Name != nomad.WorkloadIdentityDefaultName
		add := func(text string) { out = append(out, fmt.Sprintf("%s: the identity %q %s", at, id.Name, text)) }
		if named && len(id.Audience) == 0 {
			add("has no aud: a recipient cannot verify that the token is meant for it")
		}
		if len(id.Audience) > 1 {
			add("has more than one aud: each recipient can present it to the others")
		}
		if named && id.TTL == 0 {
			add("has no ttl: it is valid as long as its allocation")
		}
		if named && id.Env && id.ChangeMode != nomad.WIChangeModeRestart {
			add("is in the environment but change_mode is not restart: the task will keep an old token")
		}
	}
	return out
}

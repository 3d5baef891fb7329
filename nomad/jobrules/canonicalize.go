package jobrules

import (
	"reflect"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// Canonicalize sets the defaults of the servers, and gives equivalent jobs the same form. It modifies the job, so a
// job from state must be copied first. A second call changes nothing. Most defaults are set by clients, in
// workload.Job.Canonicalize. Canonicalize repeats only those that a job cannot run without.
func Canonicalize(j *nomad.Job) {
	tidy(reflect.ValueOf(j).Elem())
	orEmpty(&j.Namespace, nomad.DefaultNamespace)
	orEmpty(&j.Name, j.ID)
	orEmpty(&j.Type, nomad.JobTypeService)
	orEmpty(&j.NodePool, nomad.NodePoolDefault)
	if j.Priority == 0 {
		j.Priority = nomad.JobDefaultPriority
	}
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}
	if j.Periodic != nil {
		orEmpty(&j.Periodic.SpecType, nomad.PeriodicSpecCron)
		orEmpty(&j.Periodic.TimeZone, "UTC")
	}
	if j.ParameterizedJob != nil {
		orEmpty(&j.ParameterizedJob.Payload, nomad.DispatchPayloadOptional)
	}
	for _, tg := range j.TaskGroups {
		canonicalizeTaskGroup(tg, j)
	}
}

func orEmpty(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

// tidy removes nil elements from lists and maps of pointers, and replaces empty lists and maps by nil.
func tidy(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			tidy(v.Elem())
		}
	case reflect.Struct:
		for _, i := range codec.DeepFields(v.Type()) {
			tidy(v.Field(i))
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Pointer && k != reflect.Struct {
			if v.Len() == 0 {
				v.SetZero()
			}
			return
		}
		kept := 0
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() != reflect.Pointer || !e.IsNil() {
				tidy(e)
				v.Index(kept).Set(e)
				kept++
			}
		}
		if kept == 0 {
			v.SetZero()
		} else {
			v.SetLen(kept)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if e := v.MapIndex(k); e.Kind() == reflect.Pointer && e.IsNil() {
				v.SetMapIndex(k, reflect.Value{})
			} else if e.Kind() == reflect.Pointer {
				tidy(e)
			}
		}
		if v.Len() == 0 {
			v.SetZero()
		}
	}
}

func canonicalizeTaskGroup(tg *nomad.TaskGroup, j *nomad.Job) {
	if tg.EphemeralDisk == nil {
		tg.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: 300}
	}
	if tg.RestartPolicy == nil {
		tg.RestartPolicy = defaultRestart(j.Type)
	}
	if tg.ReschedulePolicy == nil {
		tg.ReschedulePolicy = defaultReschedule(j.Type)
	}
	if tg.Update == nil && (j.Type == nomad.JobTypeService || j.Type == nomad.JobTypeSystem) {
		tg.Update = defaultUpdate()
	}
	if tg.Migrate == nil && j.Type == nomad.JobTypeService {
		tg.Migrate = &nomad.MigrateStrategy{
			MaxParallel: 1, HealthCheck: nomad.MigrateStrategyHealthChecks,
			MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute,
		}
	}
	if d := tg.Disconnect; d != nil {
		orEmpty(&d.Reconcile, nomad.ReconcileBestScore)
		if d.Replace == nil {
			yes := true
			d.Replace = &yes
		}
	}
	if tg.Scaling != nil {
		orEmpty(&tg.Scaling.Type, nomad.ScalingPolicyTypeHorizontal)
		tg.Scaling.Target = j.ScalingTarget(tg, nil)
	}
	canonicalizeNetworks(tg.Networks)
	canonicalizeServices(tg.Services, j, tg.Name, "")
	for name, v := range tg.Volumes {
		orEmpty(&v.Name, name)
		orEmpty(&v.Type, nomad.VolumeTypeHost)
	}
	for _, t := range tg.Tasks {
		canonicalizeTask(t, tg)
		canonicalizeVault(t.Vault, j)
		canonicalizeServices(t.Services, j, tg.Name, t.Name)
		for _, p := range t.ScalingPolicies {
			p.Target = j.ScalingTarget(tg, t)
		}
	}
}

func canonicalizeNetworks(list nomad.Networks) {
	for _, n := range list {
		for _, ports := range [][]nomad.Port{n.ReservedPorts, n.DynamicPorts} {
			for i := range ports {
				orEmpty(&ports[i].HostNetwork, "default")
			}
		}
	}
}

func defaultRestart(jobType string) *nomad.RestartPolicy {
	r := &nomad.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: nomad.RestartPolicyModeFail}
	if jobType == nomad.JobTypeBatch || jobType == nomad.JobTypeSysBatch {
		r.Attempts, r.Interval = 3, 24*time.Hour
	}
	return r
}

// defaultReschedule returns nil for job types whose allocations are not rescheduled.
func defaultReschedule(jobType string) *nomad.ReschedulePolicy {
	switch jobType {
	case nomad.JobTypeService:
		return &nomad.ReschedulePolicy{Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour, Unlimited: true}
	case nomad.JobTypeBatch:
		return &nomad.ReschedulePolicy{Attempts: 1, Interval: 24 * time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"}
	}
	return nil
}

func defaultUpdate() *nomad.UpdateStrategy {
	return &nomad.UpdateStrategy{
		Stagger: 30 * time.Second, MaxParallel: 1, HealthCheck: nomad.UpdateStrategyHealthCheck_Checks,
		MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute, ProgressDeadline: 10 * time.Minute,
	}
}

func canonicalizeTask(t *nomad.Task, tg *nomad.TaskGroup) {
	if t.Resources == nil {
		t.Resources = &nomad.Resources{CPU: 100, MemoryMB: 300}
	}
	canonicalizeNetworks(t.Resources.Networks)
	if t.LogConfig == nil {
		t.LogConfig = &nomad.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	}
	if t.RestartPolicy == nil {
		t.RestartPolicy = codec.Copy(tg.RestartPolicy)
	}
	if t.KillTimeout == 0 {
		t.KillTimeout = nomad.DefaultKillTimeout
	}
	t.KillSignal = signalName(t.KillSignal)
	canonicalizeIdentities(t)
	for _, tmpl := range t.Templates {
		tmpl.ChangeSignal = signalName(tmpl.ChangeSignal)
	}
}

// canonicalizeIdentities ensures that the task has its default identity, with the cluster as audience. It stores
// the default identity separately from the named ones.
func canonicalizeIdentities(t *nomad.Task) {
	var named []*nomad.WorkloadIdentity
	for _, id := range t.Identities {
		if id.Name != "" && id.Name != nomad.WorkloadIdentityDefaultName {
			named = append(named, id)
		} else if t.Identity == nil {
			t.Identity = id
		} else {
			// A second default identity gets this name, which Validate rejects.
			id.Name = nomad.WorkloadIdentityDefaultName
			named = append(named, id)
		}
	}
	t.Identities = named
	if t.Identity == nil {
		t.Identity = &nomad.WorkloadIdentity{}
	}
	t.Identity.Name = nomad.WorkloadIdentityDefaultName
	t.Identity.Audience = []string{nomad.IdentityDefaultAud}
	t.Identity.ChangeSignal = signalName(t.Identity.ChangeSignal)
	for _, id := range t.Identities {
		id.ChangeSignal = signalName(id.ChangeSignal)
	}
}

// signals are the names of the signals that a job may send, without the prefix SIG.
var signals = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(`ABRT ALRM BUS CHLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR
		QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ`) {
		out[name] = true
	}
	return out
}()

// KnownSignal reports whether name is a signal that can be sent to a task, such as SIGTERM, sigterm or TERM.
func KnownSignal(name string) bool {
	return signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
}

// signalName returns the usual form of a known signal name. It returns other names unchanged, and Validate
// rejects them.
func signalName(name string) string {
	if !KnownSignal(name) {
		return name
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
}

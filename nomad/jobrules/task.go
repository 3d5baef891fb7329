package jobrules

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	minMemoryMB = 10
	minCPU      = 1
)

func validateTasks(tg *nomad.TaskGroup, f *faults) {
	if len(tg.Tasks) == 0 {
		f.add("no tasks: add one")
	}
	seen := map[string]bool{}
	leaders := 0
	for i, t := range tg.Tasks {
		if t.Name == "" {
			f.add("task %d has no name", i+1)
		} else if seen[t.Name] {
			f.add("duplicate task name %q: rename one", t.Name)
		}
		seen[t.Name] = true
		if t.Leader {
			leaders++
		}
		validateTask(t, f.in("task", t.Name), tg)
	}
	if leaders > 1 {
		f.add("%d tasks have leader = true: only one is allowed", leaders)
	}
}

func validateTask(t *nomad.Task, f *faults, tg *nomad.TaskGroup) {
	validateName(f, t.Name)
	for _, taken := range []string{"alloc", "tmp", "secrets", "private"} {
		if strings.EqualFold(t.Name, taken) {
			f.add("the name is reserved for a directory of the allocation: choose another")
		}
	}
	if t.Driver == "" {
		f.add("missing driver: set one")
	}
	if t.Isolation != "" {
		if _, err := drivers.ParseLevel(t.Isolation); err != nil {
			f.add("isolation: %v", err)
		}
	}
	if strings.ContainsRune(t.User, 0) {
		f.add("user contains a NUL character")
	}
	if t.KillTimeout < 0 {
		f.add("kill_timeout is negative")
	}
	if t.ShutdownDelay < 0 {
		f.add("shutdown_delay is negative")
	}
	if t.KillSignal != "" && !KnownSignal(t.KillSignal) {
		f.add("unknown kill_signal %q: use a name such as SIGTERM", t.KillSignal)
	}
	for _, k := range slices.Sorted(maps.Keys(t.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(t.Env[k], 0) {
			f.add("the env key %q is empty, or it contains =, or it or its value contains a NUL character", k)
		}
	}
	validateMeta(f, t.Meta)
	validateConstraints(f, t.Constraints)
	for _, c := range t.Constraints {
		if c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty {
			f.add("a constraint has the operator %s, which is not allowed in tasks: move it to the group or the job", c.Operand)
		}
	}
	validateAffinities(f, t.Affinities)
	validateRestartPolicy(t.RestartPolicy, f)
	validateResources(t.Resources, f)
	validateTaskScaling(t, f)
	validateLogConfig(t.LogConfig, f, tg.EphemeralDisk)
	validateSchedule(t.Schedule, f)
	validateIdentities(t, f)
	validateSpiffe(t, f)
	validateVolumeMounts(t, f, tg)
	validateCSIPlugin(t.CSIPluginConfig, f)
	validateArtifacts(t, f)
	validateTemplates(t, f)
	validateVault(t.Vault, f)
	validateSecrets(t, f)
	validateActions(t, f)
	if t.Lifecycle != nil {
		validateTaskLifecycleConfig(t.Lifecycle, f)
	}
	if p := t.DispatchPayload; p != nil && (p.File == "" || escapes(p.File)) {
		f.add("file of dispatch_payload is %q: it must be a file below the local directory of the task", p.File)
	}
}

func validateTaskLifecycleConfig(l *nomad.TaskLifecycleConfig, f *faults) {
	switch l.Hook {
	case nomad.TaskLifecycleHookPrestart, nomad.TaskLifecycleHookPoststart:
	case nomad.TaskLifecycleHookPoststop:
		if l.Sidecar {
			f.add("a poststop task cannot be a sidecar: remove sidecar")
		}
	default:
		f.add("hook of lifecycle is %q: use prestart, poststart or poststop", l.Hook)
	}
}

func validateResources(r *nomad.Resources, f *faults) {
	validateAmounts(f, amount{"cpu", r.CPU}, amount{"cores", r.Cores}, amount{"memory", r.MemoryMB}, amount{"memory_max", r.MemoryMaxMB},
		amount{"secrets", r.SecretsMB})
	switch {
	case r.Cores < 0:
		f.add("cores is %d: it must be 0 or more", r.Cores)
	case r.Cores > 0 && r.CPU > 0:
		f.add("cpu and cores are both set: keep one of them")
	case r.Cores == 0 && r.CPU < minCPU:
		f.add("cpu is %d MHz: the minimum is %d MHz", r.CPU, minCPU)
	}
	if r.MemoryMB < minMemoryMB {
		f.add("memory is %d MB: the minimum is %d MB", r.MemoryMB, minMemoryMB)
	}
	if r.MemoryMaxMB != 0 && r.MemoryMaxMB != nomad.MemoryNoLimit && r.MemoryMaxMB < r.MemoryMB {
		f.add("memory_max is %d MB, less than its memory of %d MB", r.MemoryMaxMB, r.MemoryMB)
	}
	if r.SecretsMB < 0 || r.SecretsMB > r.MemoryMB {
		f.add("secrets is %d MB: it must be 0 or more and no more than memory, which is %d MB", r.SecretsMB, r.MemoryMB)
	}
	if r.NUMA != nil {
		validateNUMA(r, f)
	}
	for _, d := range r.Devices {
		validateDevice(d, f.in("device", d.Name))
	}
}

func validateNUMA(r *nomad.Resources, f *faults) {
	switch r.NUMA.Affinity {
	case "", nomad.NoneNUMA, nomad.PreferNUMA, nomad.RequireNUMA:
	default:
		f.add("affinity of numa is %q: use none, prefer or require", r.NUMA.Affinity)
	}
	for _, name := range r.NUMA.Devices {
		if !slices.ContainsFunc(r.Devices, func(d *nomad.RequestedDevice) bool { return d.Name == name }) {
			f.add("devices of numa has %q: it must be the label of a device block of the task", name)
		}
	}
}

func validateLogConfig(l *nomad.LogConfig, f *faults, disk *nomad.EphemeralDisk) {
	validateLogSinks(l, f)
	validateAmounts(f, amount{"max_files of logs", l.MaxFiles}, amount{"max_file_size of logs", l.MaxFileSizeMB})
	if l.MaxFiles < 1 {
		f.add("max_files of logs is %d: it must be 1 or more", l.MaxFiles)
	}
	if l.MaxFileSizeMB < 1 {
		f.add("max_file_size of logs is %d MB: it must be 1 or more", l.MaxFileSizeMB)
	}
	if usage := int64(l.MaxFiles) * int64(l.MaxFileSizeMB); !l.Disabled && usage >= int64(disk.SizeMB) {
		f.add("its logs can use %d MB (max_files times max_file_size), which must be less than the ephemeral_disk of %d MB", usage, disk.SizeMB)
	}
}

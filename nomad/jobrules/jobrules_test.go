package jobrules_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// sample returns a job with the required fields only.
func sample(jobType string) *nomad.Job {
	return &nomad.Job{
		ID: "j", Region: "global", Type: jobType,
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: 1,
			Tasks: []*nomad.Task{{Name: "t", Driver: "exec2"}},
		}},
	}
}

func TestValidateAcceptsDefaults(t *testing.T) {
	for _, kind := range []string{"service", "batch", "system", "sysbatch"} {
		j := sample(kind)
		jobrules.Canonicalize(j)
		if err := jobrules.Validate(j); err != nil {
			t.Errorf("%s: Validate() = %v", kind, err)
		}
		if w := jobrules.Warnings(j); len(w) != 0 {
			t.Errorf("%s: Warnings() = %q", kind, w)
		}
	}
}

func TestCanonicalizeTwiceChangesNothing(t *testing.T) {
	j := sample("service")
	jobrules.Canonicalize(j)
	once := codec.Copy(j)
	jobrules.Canonicalize(j)
	if !reflect.DeepEqual(once, j) {
		t.Errorf("second Canonicalize changed the job:\n%+v\n%+v", once, j)
	}
}

func TestCanonicalizeDefaults(t *testing.T) {
	j := sample("batch")
	j.Meta = map[string]string{}
	j.Constraints = []*nomad.Constraint{nil}
	j.TaskGroups = append(j.TaskGroups, nil)
	j.TaskGroups[0].Tasks[0].KillSignal = "term"
	j.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Env: true}, {Name: "aws", ChangeSignal: "sighup"}}
	jobrules.Canonicalize(j)
	task := j.TaskGroups[0].Tasks[0]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"namespace", j.Namespace, "default"},
		{"name", j.Name, "j"},
		{"datacenters", j.Datacenters, []string{"*"}},
		{"node pool", j.NodePool, "default"},
		{"priority", j.Priority, 50},
		{"empty meta", j.Meta, map[string]string(nil)},
		{"nil constraint", len(j.Constraints), 0},
		{"nil group", len(j.TaskGroups), 1},
		{"kill signal", task.KillSignal, "SIGTERM"},
		{"kill timeout", task.KillTimeout, 5 * time.Second},
		{"default identity", task.Identity, &nomad.WorkloadIdentity{Name: "default", Audience: []string{"nomadproject.io"}, Env: true}},
		{"named identities", task.Identities, []*nomad.WorkloadIdentity{{Name: "aws", ChangeSignal: "SIGHUP"}}},
		{"restart attempts", task.RestartPolicy.Attempts, 3},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s = %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestValidateFaults(t *testing.T) {
	group := func(j *nomad.Job) *nomad.TaskGroup { return j.TaskGroups[0] }
	task := func(j *nomad.Job) *nomad.Task { return j.TaskGroups[0].Tasks[0] }
	at := `job "j", group "g", task "t": `
	for _, c := range []struct {
		name string
		edit func(j *nomad.Job)
		want string
	}{
		{"space in ID", func(j *nomad.Job) { j.ID = "a b" }, `job "a b": the ID must not contain spaces`},
		{"priority", func(j *nomad.Job) { j.Priority = 32767 }, `job "j": priority is 32767: it must be 1 to 32766`},
		{"type", func(j *nomad.Job) { j.Type = "cron" }, `unknown type "cron"`},
		{"no groups", func(j *nomad.Job) { j.TaskGroups = nil }, "no groups"},
		{"twin groups", func(j *nomad.Job) { j.TaskGroups = append(j.TaskGroups, codec.Copy(group(j))) }, `duplicate group name "g"`},
		{"count", func(j *nomad.Job) { group(j).Count = -1 }, `job "j", group "g": count is -1`},
		{"too many", func(j *nomad.Job) { group(j).Count = 50001 }, "the sum of the group counts is 50001"},
		{"system count", func(j *nomad.Job) { j.Type = "system"; group(j).Count = 2 }, "must be 1"},
		{"system reschedule", func(j *nomad.Job) { j.Type = "system"; group(j).ReschedulePolicy = &nomad.ReschedulePolicy{} },
			"reschedule is not allowed in system jobs"},
		{"no tasks", func(j *nomad.Job) { group(j).Tasks = nil }, "no tasks"},
		{"twin tasks", func(j *nomad.Job) { group(j).Tasks = append(group(j).Tasks, codec.Copy(task(j))) }, `duplicate task name "t"`},
		{"group slash", func(j *nomad.Job) { group(j).Name = "a/b" }, `the name must not contain /`},
		{"task colon", func(j *nomad.Job) { task(j).Name = "a:b" }, `the name must not contain /`},
		{"task alloc", func(j *nomad.Job) { task(j).Name = "Alloc" }, "directory of the allocation"},
		{"task dots", func(j *nomad.Job) { task(j).Name = ".." }, "reserved for a directory"},
		{"no driver", func(j *nomad.Job) { task(j).Driver = "" }, at + "missing driver"},
		{"signal", func(j *nomad.Job) { task(j).KillSignal = "SIGFOO" }, at + `unknown kill_signal "SIGFOO"`},
		{"kill timeout", func(j *nomad.Job) { task(j).KillTimeout = -1 }, "kill_timeout is negative"},
		{"cpu and cores", func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: 5, Cores: 1, MemoryMB: 10} },
			"cpu and cores are both set"},
		{"memory", func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: 5, MemoryMB: 9} }, "memory is 9 MB: the minimum is 10 MB"},
		{"memory max", func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: 5, MemoryMB: 20, MemoryMaxMB: 19} },
			"less than its memory"},
		{"secrets size", func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: 5, MemoryMB: 20, SecretsMB: 21} }, "secrets is 21 MB"},
		{"logs over disk", func(j *nomad.Job) { task(j).LogConfig = &nomad.LogConfig{MaxFiles: 30, MaxFileSizeMB: 10} }, "logs can use 300 MB"},
		{"disk", func(j *nomad.Job) { group(j).EphemeralDisk = &nomad.EphemeralDisk{SizeMB: 1} }, "ephemeral_disk is 1 MB"},
		{"lifecycle", func(j *nomad.Job) { task(j).Lifecycle = &nomad.TaskLifecycleConfig{Hook: "before"} }, `hook of lifecycle is "before"`},
		{"poststop sidecar", func(j *nomad.Job) {
			task(j).Lifecycle = &nomad.TaskLifecycleConfig{Hook: "poststop", Sidecar: true}
		}, "cannot be a sidecar"},
		{"payload path", func(j *nomad.Job) { task(j).DispatchPayload = &nomad.DispatchPayloadConfig{File: "../x"} }, "file of dispatch_payload"},
		{"default ttl", func(j *nomad.Job) { task(j).Identity = &nomad.WorkloadIdentity{TTL: 1} }, "default identity has a ttl"},
		{"identity name", func(j *nomad.Job) { task(j).Identities = []*nomad.WorkloadIdentity{{Name: "a.b"}} },
			`identity name "a.b" is malformed`},
		{"twin identities", func(j *nomad.Job) { task(j).Identities = []*nomad.WorkloadIdentity{{Name: "a"}, {Name: "a"}} },
			`duplicate identity name "a"`},
		{"filepath alone", func(j *nomad.Job) { task(j).Identity = &nomad.WorkloadIdentity{Filepath: "x"} }, "filepath but no file"},
		{"filepath out", func(j *nomad.Job) { task(j).Identity = &nomad.WorkloadIdentity{File: true, Filepath: "a/../../x"} },
			"is outside the task directory"},
		{"change mode", func(j *nomad.Job) { task(j).Identity = &nomad.WorkloadIdentity{ChangeMode: "signal"} }, "no change_signal"},
		{"env key", func(j *nomad.Job) { task(j).Env = map[string]string{"A=B": ""} }, `env key "A=B"`},
		{"restart mode", func(j *nomad.Job) { group(j).RestartPolicy = &nomad.RestartPolicy{Mode: "x"} }, `mode of restart is "x"`},
		{"restart interval", func(j *nomad.Job) {
			group(j).RestartPolicy = &nomad.RestartPolicy{Mode: "fail", Attempts: 10, Interval: time.Minute, Delay: 15 * time.Second}
		}, "cannot make 10 attempts"},
		{"reschedule delay", func(j *nomad.Job) {
			group(j).ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, DelayFunction: "constant", Delay: time.Second}
		}, "delay of reschedule is 1s"},
		{"update deadlines", func(j *nomad.Job) {
			group(j).Update = &nomad.UpdateStrategy{HealthCheck: "checks", MinHealthyTime: time.Minute, HealthyDeadline: time.Minute}
		}, "must be less than its healthy_deadline"},
		{"operator", func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{LTarget: "a", Operand: "~"}} }, `operator "~"`},
		{"regexp", func(j *nomad.Job) {
			task(j).Constraints = []*nomad.Constraint{{LTarget: "a", Operand: "regexp", RTarget: "("}}
		}, "malformed"},
		{"regexp that expands", func(j *nomad.Job) {
			task(j).Constraints = []*nomad.Constraint{{LTarget: "a", Operand: "regexp", RTarget: "(" + strings.Repeat("ab", 1500) + "){1000}"}}
		}, "expand to more than 10000 instructions"},
		{"many regexps", func(j *nomad.Job) {
			for i := range 300 {
				group(j).Constraints = append(group(j).Constraints,
					&nomad.Constraint{LTarget: "a", Operand: "regexp", RTarget: fmt.Sprintf("%d[a-z]{900}", i)})
			}
		}, "too large together"},
		{"long range", func(j *nomad.Job) {
			task(j).Affinities = []*nomad.Affinity{{LTarget: "a", Operand: "version", RTarget: strings.Repeat("> 1.0, ", 900) + "> 1", Weight: 5}}
		}, "the limit is 4096"},
		{"long semver range", func(j *nomad.Job) {
			task(j).Constraints = []*nomad.Constraint{{LTarget: "a", Operand: "semver", RTarget: strings.Repeat(">1,", 200) + "> 1"}}
		}, "the limit is 128"},
		{"version", func(j *nomad.Job) {
			group(j).Constraints = []*nomad.Constraint{{LTarget: "a", Operand: "version", RTarget: "new"}}
		}, "malformed"},
		{"distinct hosts", func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{Operand: "distinct_hosts", RTarget: "no way"}}
		}, "use true or false"},
		{"distinct hosts of a task", func(j *nomad.Job) {
			task(j).Constraints = []*nomad.Constraint{{Operand: "distinct_hosts"}}
		}, "operator distinct_hosts, which is not allowed in tasks"},
		{"distinct property of a task", func(j *nomad.Job) {
			task(j).Constraints = []*nomad.Constraint{{LTarget: "${node.class}", Operand: "distinct_property"}}
		}, "operator distinct_property, which is not allowed in tasks"},
		{"affinity weight", func(j *nomad.Job) { j.Affinities = []*nomad.Affinity{{LTarget: "a", Operand: "="}} }, "not 0"},
		{"spread sum", func(j *nomad.Job) {
			j.Spreads = []*nomad.Spread{{Attribute: "a", Weight: 1,
				SpreadTarget: []*nomad.SpreadTarget{{Value: "x", Percent: 60}, {Value: "y", Percent: 60}}}}
		}, "sum to 120 percent"},
		{"static port", func(j *nomad.Job) {
			group(j).Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "a", Value: 70000}}}}
		}, "has the number 70000"},
		{"port twice", func(j *nomad.Job) {
			group(j).Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "a", Value: 80}, {Label: "b", Value: 80}}}}
		}, "same static number 80"},
		{"label twice", func(j *nomad.Job) {
			group(j).Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "a"}, {Label: "a"}}}}
		}, `duplicate port label "a"`},
		{"parameterized service", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} },
			"requires a job of type batch or sysbatch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sample("service")
			c.edit(j)
			jobrules.Canonicalize(j)
			if err := jobrules.Validate(j); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Validate() = %v, want %q", err, c.want)
			}
		})
	}
}

// All errors are reported at once, each in its own line.
func TestValidateTellsAll(t *testing.T) {
	j := sample("service")
	j.Priority = -1
	j.TaskGroups[0].Count = -1
	j.TaskGroups[0].Tasks[0].Driver = ""
	jobrules.Canonicalize(j)
	err := jobrules.Validate(j)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 3 {
		t.Fatalf("Validate() = %v, want 3 faults", err)
	}
	if n := strings.Count(err.Error(), "\n"); n != 2 {
		t.Errorf("text has %d lines, want 3:\n%v", n+1, err)
	}
}

// A system job may have canaries, which are a percentage.
func TestSystemUpdate(t *testing.T) {
	u := func(edit func(*nomad.UpdateStrategy)) *nomad.Job {
		j := sample("service")
		j.Type, j.TaskGroups[0].Count, j.TaskGroups[0].ReschedulePolicy, j.TaskGroups[0].Migrate = nomad.JobTypeSystem, 1, nil, nil
		jobrules.Canonicalize(j)
		edit(j.TaskGroups[0].Update)
		return j
	}
	j := u(func(u *nomad.UpdateStrategy) {
		u.Canary, u.AutoPromote, u.AutoRevert, u.HealthCheck = 50, true, true, nomad.UpdateStrategyHealthCheck_Manual
	})
	if err := jobrules.Validate(j); err != nil {
		t.Errorf("Validate() = %v", err)
	}
	if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Contains(got, "canary") {
		t.Errorf("Warnings() = %q", got)
	}
	for want, edit := range map[string]func(u *nomad.UpdateStrategy){
		"canary has no effect while max_parallel is 0":      func(u *nomad.UpdateStrategy) { u.Canary, u.MaxParallel = 50, 0 },
		"canary is 101: in a system job it is a percentage": func(u *nomad.UpdateStrategy) { u.Canary = 101 },
	} {
		if got := strings.Join(jobrules.Warnings(u(edit)), "\n"); !strings.Contains(got, want) {
			t.Errorf("Warnings() = %q, want %q", got, want)
		}
	}
}

func TestAbsentFeatures(t *testing.T) {
	for name, edit := range map[string]func(j *nomad.Job){
		"multiregion": func(j *nomad.Job) { j.Multiregion = &nomad.Multiregion{} },
		"attachment_mode": func(j *nomad.Job) {
			j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Type: "host", Source: "s", AttachmentMode: "block-device"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample("service")
			edit(j)
			jobrules.Canonicalize(j)
			err := jobrules.Validate(j)
			if err == nil || !strings.Contains(err.Error(), "not supported by this version") || !strings.Contains(err.Error(), name) {
				t.Errorf("Validate() = %v, want it to refuse %s", err, name)
			}
			if got := jobrules.UnsupportedFeatures(j); len(got) != 1 || !slices.Contains(jobrules.AllUnsupportedFeatures(), got[0]) {
				t.Errorf("UnsupportedFeatures() = %q, want one of %q", got, jobrules.AllUnsupportedFeatures())
			}
		})
	}
	j := sample("service")
	j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 10, MemoryMB: 10, NUMA: &nomad.NUMA{Affinity: "none"}}
	jobrules.Canonicalize(j)
	if err := jobrules.Validate(j); err != nil {
		t.Errorf("numa affinity none: %v", err)
	}
	if got := jobrules.UnsupportedFeatures(j); got != nil {
		t.Errorf("UnsupportedFeatures() of a job without any = %q", got)
	}
}

func TestWarnings(t *testing.T) {
	j := sample("batch")
	j.TaskGroups[0].Update = &nomad.UpdateStrategy{}
	j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Attempts: 2}
	j.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: "aws", Env: true}}
	jobrules.Canonicalize(j)
	got := strings.Join(jobrules.Warnings(j), "\n")
	for _, want := range []string{"update has no effect on batch and sysbatch jobs", `"aws" has no aud`, `"aws" has no ttl`, "keep an old token",
		"attempts of reschedule"} {
		if !strings.Contains(got, want) {
			t.Errorf("Warnings() lack %q:\n%s", want, got)
		}
	}
}

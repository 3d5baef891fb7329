package jobrules_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// groups returns a job with n groups of one task.
func groups(n int) *nomad.Job {
	j := &nomad.Job{ID: "x", Name: "x", Region: "global", Namespace: "default", NodePool: "default", Type: "service", Priority: 50}
	for i := range n {
		j.TaskGroups = append(j.TaskGroups, &nomad.TaskGroup{Name: fmt.Sprint("g", i), Tasks: []*nomad.Task{{Name: "t", Driver: "docker"}}})
	}
	return j
}

// repeated returns n objects.
func repeated[T any](n int, f func(i int) *T) (out []*T) {
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

// bombs are jobs of a few megabytes that cost much without limits.
func bombs() map[string]*nomad.Job {
	long := strings.Repeat("A", 1<<20)
	out := map[string]*nomad.Job{}
	add := func(name string, n int, change func(*nomad.Job)) {
		out[name] = groups(n)
		change(out[name])
	}
	add("service name", 1, func(j *nomad.Job) {
		j.Name = long
		j.TaskGroups[0].Services = []*nomad.Service{{Name: strings.Repeat("${JOB}", 10_000)}}
	})
	add("service names within bounds", 1, func(j *nomad.Job) {
		j.Name = strings.Repeat("A", 2<<10)
		j.TaskGroups[0].Services = repeated(500, func(int) *nomad.Service {
			return &nomad.Service{Name: strings.Repeat("${BASE}", 8),
				Checks: repeated(100, func(int) *nomad.ServiceCheck { return &nomad.ServiceCheck{} })}
		})
	})
	add("services without names", 1, func(j *nomad.Job) {
		j.Name = long
		j.TaskGroups[0].Services = repeated(10_000, func(int) *nomad.Service { return &nomad.Service{} })
	})
	add("ID", 1000, func(j *nomad.Job) { j.ID = long })
	add("name of a group", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Name = long
		j.TaskGroups[0].Tasks = repeated(1000, func(int) *nomad.Task { return &nomad.Task{Name: "t"} })
	})
	add("mode of a network", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Networks = nomad.Networks{{Mode: long}}
		j.TaskGroups[0].Tasks = repeated(1000, func(int) *nomad.Task {
			return &nomad.Task{Name: "t", Resources: &nomad.Resources{Networks: nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "p"}}}}}}
		})
	})
	addLists(add)
	addVault(add)
	return out
}

// addVault adds jobs with hostile vault and secret blocks.
func addVault(add func(name string, groups int, change func(*nomad.Job))) {
	long := strings.Repeat("\x1b", 1<<20)
	add("vault block", 500, func(j *nomad.Job) {
		v := &nomad.Vault{Role: long, Namespace: long, Cluster: long, ChangeMode: long, ChangeSignal: long}
		for _, tg := range j.TaskGroups {
			tg.Tasks[0].Vault = v
		}
	})
	add("secret blocks", 500, func(j *nomad.Job) {
		all := repeated(100, func(i int) *nomad.Secret { return &nomad.Secret{Name: "a", Provider: "vault", Path: "a"} })
		for _, tg := range j.TaskGroups {
			tg.Tasks[0].Secrets = all
		}
	})
	add("many secret blocks", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Secrets = repeated(100_000, func(int) *nomad.Secret { return &nomad.Secret{} })
	})
	for _, provider := range []string{"vault", "nomad", "plugin", long} {
		add("texts of a secret block of "+provider[:1], 1, func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Secrets = []*nomad.Secret{{Name: long, Provider: provider, Path: long, Config: map[string]any{long: long},
				Env: map[string]string{long: long}}}
		})
		add("keys of a secret block of "+provider[:1], 1, func(j *nomad.Job) {
			s := &nomad.Secret{Name: "a", Provider: provider, Path: "a", Config: map[string]any{}, Env: map[string]string{}}
			for i := range 100_000 {
				s.Config[fmt.Sprint(i)], s.Env[fmt.Sprint(i)] = []any{nil}, long[:1]
			}
			j.TaskGroups[0].Tasks[0].Secrets = []*nomad.Secret{s}
		})
	}
}

// addLists adds jobs with long lists.
func addLists(add func(name string, groups int, change func(*nomad.Job))) {
	constraint := func(operand, value string) func(int) *nomad.Constraint {
		return func(i int) *nomad.Constraint {
			return &nomad.Constraint{LTarget: "${attr.kernel.version}", Operand: operand, RTarget: strings.ReplaceAll(value, "#", fmt.Sprint(i))}
		}
	}
	add("ranges of many groups", 500, func(j *nomad.Job) { j.Constraints = repeated(4000, constraint("version", ">= 1.#, < 3")) })
	add("values of many groups", 500, func(j *nomad.Job) { j.Constraints = repeated(4000, constraint("!=", "v#")) })
	add("many constraints", 1, func(j *nomad.Job) { j.Constraints = repeated(50_000, constraint("!=", "v#")) })
	add("many faults", 1, func(j *nomad.Job) { j.Constraints = repeated(5000, constraint("x", "#")) })
	add("long values", 1, func(j *nomad.Job) { j.Constraints = repeated(8, constraint("regexp", "("+strings.Repeat("A", 1<<20))) })
	add("meta keys", 1, func(j *nomad.Job) {
		j.ParameterizedJob = &nomad.ParameterizedJobConfig{}
		for i := range 300_000 {
			j.ParameterizedJob.MetaOptional = append(j.ParameterizedJob.MetaOptional, fmt.Sprint("a", i))
			j.ParameterizedJob.MetaRequired = append(j.ParameterizedJob.MetaRequired, fmt.Sprint("b", i))
		}
	})
	add("templates", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Templates = repeated(50_000, func(i int) *nomad.Template {
			return &nomad.Template{DestPath: fmt.Sprint("local/", i), EmbeddedTmpl: "x"}
		})
	})
	add("labels of ports", 1, func(j *nomad.Job) {
		ports := make([]nomad.Port, 20_000)
		for i := range ports {
			ports[i].Label = fmt.Sprint("p", i)
		}
		j.TaskGroups[0].Networks = nomad.Networks{{DynamicPorts: ports}}
		j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{Networks: repeated(5000,
			func(int) *nomad.NetworkResource { return &nomad.NetworkResource{} })}
	})
	add("warnings", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Networks = repeated(20_000, func(int) *nomad.NetworkResource { return &nomad.NetworkResource{MBits: 1} })
	})
}

// TestBombsAreCheap checks that no job of a few megabytes takes much more memory, and that its errors and warnings are
// short. A job whose validation takes quadratic time would exceed the time limit of the test.
func TestBombsAreCheap(t *testing.T) {
	const maxText = 256 << 10
	maxBytes := uint64(128 << 20)
	if testing.Short() { // as in the race suite: under its detector, regular expressions take four times the memory
		maxBytes *= 8
	}
	for name, j := range bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			text := ""
			if err := jobrules.Bound(j); err != nil {
				text = err.Error()
			} else {
				jobrules.Canonicalize(j)
				if err := jobrules.Validate(j); err != nil {
					text = err.Error()
				}
				text += strings.Join(jobrules.Warnings(j), "\n")
				for _, err := range jobrules.NeedsVault(j, nil) {
					text += err.Error()
				}
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > maxBytes {
				t.Errorf("the job takes %d bytes, want at most %d", n, maxBytes)
			}
			if len(text) > maxText {
				t.Errorf("the errors and warnings have %d bytes, want at most %d", len(text), maxText)
			}
		})
	}
}

// TestServiceNames_Shortened checks that a name that is too long with its variables is an error.
func TestServiceNames_Shortened(t *testing.T) {
	j := groups(1)
	j.TaskGroups[0].Services = []*nomad.Service{{Name: strings.Repeat("${JOB}", 8), Provider: "nomad"}}
	j.Name = strings.Repeat("a", 100)
	jobrules.Canonicalize(j)
	if err := jobrules.Validate(j); err == nil || !strings.Contains(err.Error(), "the name of a service has 259 bytes") {
		t.Errorf("Validate() = %v, want an error about the name of the service", err)
	}
}

// TestBound_Null checks that a null of a caller of the RPC is an error.
func TestBound_Null(t *testing.T) {
	for what, change := range map[string]func(*nomad.Job){
		"group":   func(j *nomad.Job) { j.TaskGroups[0] = nil },
		"task":    func(j *nomad.Job) { j.TaskGroups[0].Tasks[0] = nil },
		"network": func(j *nomad.Job) { j.TaskGroups[0].Networks = nomad.Networks{nil} },
	} {
		j := groups(1)
		change(j)
		if err := jobrules.Bound(j); err == nil || !strings.Contains(err.Error(), "a "+what+" of the job is null") {
			t.Errorf("Bound() of a job with a null %s = %v", what, err)
		}
	}
}

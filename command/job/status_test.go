package job

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// describable returns a job with two groups that can be described.
func describable() *api.Job {
	j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: new("a"), Tasks: []*api.Task{{Name: "x"}, {Name: "y"}}},
		{Name: new("b"), Tasks: []*api.Task{{Name: "z"}}}}}
	j.ID, j.Name, j.Type, j.Namespace, j.NodePool, j.Status = new("j"), new("j"), new("service"), new("default"), new("default"), new("running")
	j.Priority, j.SubmitTime = new(50), new(int64(0))
	return j
}

// TestDescribe_Consul checks the rows of services with provider "consul" in the job file.
func TestDescribe_Consul(t *testing.T) {
	j := describable()
	j.TaskGroups[0].Services = []*api.Service{{Name: "own", Provider: "nomad"}}
	if got := describe(j); strings.Contains(got, "Services") {
		t.Errorf("a job with a native service:\n%s", got)
	}
	j.TaskGroups[0].Services = append(j.TaskGroups[0].Services, &api.Service{Name: "web", Provider: "nomad", DeclaredProvider: "consul"})
	j.TaskGroups[1].Tasks[0].Services = []*api.Service{{Name: "old", Provider: "consul"}}
	got := describe(j)
	for _, row := range []string{"Native Services = web (provider ", "Consul Services = old (registered by nodes with Consul)"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), row) {
			t.Errorf("no row %q in:\n%s", row, got)
		}
	}
}

// The description of a job names its privileged tasks, and has no such line for a job without them.
func TestDescribe_Privileged(t *testing.T) {
	j := describable()
	if got := describe(j); strings.Contains(got, "Privileged") {
		t.Errorf("a job without privileged tasks:\n%s", got)
	}
	j.TaskGroups[0].Tasks[1].Privileged, j.TaskGroups[1].Tasks[0].Privileged = true, true
	if got := describe(j); !strings.Contains(got, "\nPrivileged Tasks = a/y,b/z") {
		t.Errorf("a job with privileged tasks:\n%s", got)
	}
}

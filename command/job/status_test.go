package job

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// The description of a job names its privileged tasks, and has no such line for a job without them.
func TestDescribe_Privileged(t *testing.T) {
	j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: new("a"), Tasks: []*api.Task{{Name: "x"}, {Name: "y"}}},
		{Name: new("b"), Tasks: []*api.Task{{Name: "z"}}}}}
	j.ID, j.Name, j.Type, j.Namespace, j.NodePool, j.Status = new("j"), new("j"), new("service"), new("default"), new("default"), new("running")
	j.Priority, j.SubmitTime = new(50), new(int64(0))
	if got := describe(j); strings.Contains(got, "Privileged") {
		t.Errorf("a job without privileged tasks:\n%s", got)
	}
	j.TaskGroups[0].Tasks[1].Privileged, j.TaskGroups[1].Tasks[0].Privileged = true, true
	if got := describe(j); !strings.Contains(got, "\nPrivileged Tasks = a/y,b/z") {
		t.Errorf("a job with privileged tasks:\n%s", got)
	}
}

package codec_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestCheckNulls(t *testing.T) {
	for name, tc := range map[string]struct {
		v    any
		want string
	}{
		"nothing":        {nil, ""},
		"absent pointer": {(*nomad.Job)(nil), ""},
		"absent fields":  {&message.JobRegisterRequest{Job: &nomad.Job{}}, ""},
		"no elements":    {&nomad.Job{TaskGroups: []*nomad.TaskGroup{}}, ""},
		"whole":          {&nomad.Job{TaskGroups: []*nomad.TaskGroup{{Tasks: []*nomad.Task{{Config: map[string]any{"a": nil}}}}}}, ""},
		"main task":      {&nomad.AllocatedResources{TaskLifecycles: map[string]*nomad.TaskLifecycleConfig{"t": nil}}, ""},
		"removed key":    {&message.NodeMetaApplyRequest{Meta: map[string]*string{"k": nil}}, ""},
		"list":           {&nomad.Job{TaskGroups: []*nomad.TaskGroup{{}, nil}}, "TaskGroups.[1] is null"},
		"deep": {&message.JobRegisterRequest{Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Tasks: []*nomad.Task{nil}}}}},
			"Job.TaskGroups.[0].Tasks.[0] is null"},
		"map": {&message.AllocUpdateDesiredTransitionRequest{Allocs: map[string]*nomad.DesiredTransition{"a": nil}},
			`Allocs.["a"] is null`},
		"list in map": {&message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{"n": {nil}}}, `NodeEvents.["n"][0] is null`},
	} {
		err := codec.CheckNulls(tc.v)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: CheckNulls() = %v, want %q", name, err, tc.want)
		}
	}
}

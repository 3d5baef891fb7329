package jobspec_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
)

func TestSubmission(t *testing.T) {
	src := lines(withVariables)
	got := jobspec.Submission(jobspec.Config{
		Source: src, Filename: "a.hcl", VarContent: "number = 3",
		Env:  []string{"NOMAD_VAR_text=from env", "NOMAD_VAR_nobody=1", "HOME=/"},
		Vars: []string{"text=a b&c", `list=["x"]`, "nobody=1"},
	})
	want := &api.JobSubmission{
		Source: string(src), Format: "hcl2",
		VariableFlags: map[string]string{"text": "a+b%26c", "number": "3"}, Variables: "list = [\"x\"]\n",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Submission() = %+v, want %+v", got, want)
	}
	got = jobspec.Submission(jobspec.Config{Source: []byte(`{"ID": "a"}`)})
	if got.Format != "json" || got.Source != `{"ID": "a"}` {
		t.Errorf("JSON: %+v", got)
	}
}

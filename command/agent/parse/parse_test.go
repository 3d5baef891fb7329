package parse_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/parse"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

const small = `variable "n" { default = 2 }
job "a" {
  group "g" {
    count = var.n
    task "t" {
      driver = "exec2"
      config { command = upper("x") }
    }
  }
}`

func TestParse(t *testing.T) {
	out, err := parse.New().Parse(t.Context(), &api.JobsParseRequest{JobHCL: small, Variables: "n = 3", Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	var job api.Job
	if err := json.Unmarshal(out, &job); err != nil {
		t.Fatal(err)
	}
	if *job.ID != "a" || *job.TaskGroups[0].Count != 3 || job.TaskGroups[0].Tasks[0].Config["command"] != "X" || job.Namespace == nil {
		t.Errorf("Parse() = %s", out)
	}
}

// A fault of the text is reported with its place.
func TestFaults(t *testing.T) {
	for name, text := range map[string]string{
		"syntax": "job \"x\" {", "argument": "job \"x\" {\n nonsense = 1\n}", "file": "job \"x\" {\n region = file(\"/etc/passwd\")\n}",
	} {
		_, err := parse.New().Parse(t.Context(), &api.JobsParseRequest{JobHCL: text})
		if code := status(err); code != http.StatusBadRequest || !strings.Contains(err.Error(), "input.hcl:") {
			t.Errorf("%s: status %d, %v; want 400 with a place", name, code, err)
		}
	}
}

func status(err error) int {
	var coded *apierror.Coded
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}

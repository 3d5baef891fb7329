package sdk_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The agent fills in the defaults of a job like the SDK, and leaves the same fields null.
func TestSDKCanonicalize(t *testing.T) {
	c, err := sdk.NewClient(&sdk.Config{Address: harness.DevAgent(t).Address()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"least": harness.Job("a", "", harness.SmallTask),
		"batch": harness.Job("a", "type = \"batch\"\nperiodic {\n crons = [\"@daily\"]\n}\nreschedule {\n attempts = 0\n"+
			" unlimited = false\n}", harness.SmallTask),
		"system":        harness.Job("a", "type = \"system\"\nupdate {\n max_parallel = 2\n}", harness.SmallTask),
		"periodic":      harness.Job("a", "type = \"batch\"\nperiodic {\n cron = \"@daily\"\n}", harness.SmallTask),
		"parameterized": harness.Job("a", "type = \"batch\"\nparameterized {\n payload = \"required\"\n}", harness.SmallTask),
		"policies": harness.Job("a", "update {\n canary = 1\n}\nmigrate {\n max_parallel = 2\n}\naffinity {\n"+
			" attribute = \"${node.class}\"\n value = \"x\"\n}\nspread {\n attribute = \"${node.datacenter}\"\n}",
			"update {\n auto_revert = true\n}\nrestart {\n attempts = 1\n mode = \"delay\"\n}\nephemeral_disk {\n sticky = true\n}\n"+
				"scaling {\n max = 5\n}\ndisconnect {\n lost_after = \"1h\"\n}\n"+harness.SmallTask),
		"services": harness.Job("a", "", `service {
  name     = "s"
  provider = "nomad"
  port     = "http"
  check_restart {
    limit = 3
    grace = "5s"
  }
  check {
    type     = "tcp"
    interval = "10s"
    timeout  = "1s"
  }
  check {
    type     = "http"
    path     = "/"
    interval = "10s"
    timeout  = "1s"
    check_restart {
      limit = 1
    }
  }
}
network {
  port "http" {}
}
volume "data" {
  type   = "host"
  source = "data"
}
task "t" {
  driver = "mock_driver"
  artifact {
    source = "https://example.com/a.tar"
    mode   = "file"
  }
  template {
    data        = "x"
    destination = "local/x"
  }
  template {
    data        = "x"
    destination = "local/y"
    change_mode = "signal"
    change_signal = "sigusr1"
  }
  vault {
    role = "r"
  }
  consul {}
  volume_mount {
    volume      = "data"
    destination = "/data"
  }
  resources {
    cores      = 1
    memory_max = 500
    device "nvidia/gpu" {}
  }
  logs {
    max_files = 3
  }
  identity {
    name = "x"
    aud  = ["y"]
  }
}`),
	} {
		got, err := c.Jobs().ParseHCL(text, true)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		want, err := c.Jobs().ParseHCL(text, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want.Canonicalize()
		for _, d := range differences("Job", asJSON(t, got), asJSON(t, want)) {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func asJSON(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// differences lists the differences of two JSON values.
func differences(path string, got, want any) []string {
	var out []string
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(w)
		maps.Copy(keys, g)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, differences(path+"."+key, g[key], w[key])...)
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), g[i], w[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(got, want) {
		out = append(out, fmt.Sprintf("%s = %v, want %v", path, got, want))
	}
	return out
}

package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/grants"
	"github.com/open-nomad/open-nomad/jobspec"
)

func parsed(t *testing.T, text string) *api.Job {
	t.Helper()
	j, err := jobspec.Parse(jobspec.Config{Filename: "job.nomad.hcl", Source: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const service = `
job "web" {
  type = "service"
  update {
    max_parallel = 2
  }
  group "g" {
    count = 3
    restart {
      attempts = 5
    }
    task "t" {
      driver = "exec2"
      restart {
        attempts = 9
      }
      config {
        command = "/bin/true"
        unveil  = ["r:/etc/mime.types", "rwc:${NOMAD_ALLOC_DIR}/x"]
        network {
          bind    = [80]
          connect = [443, 5432]
        }
      }
    }
    task "other" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}`

// TestCopied checks that a copy has another name, the given grants and no retries, and
// that the original job is unchanged.
func TestCopied(t *testing.T) {
	j := parsed(t, service)
	n := taskName{"g", "t"}
	had := grantsOf(j.TaskGroups[0].Tasks[0].Config)
	if !slices.Equal(had.Unveil, []string{"r:/etc/mime.types", "rwc:${NOMAD_ALLOC_DIR}/x"}) || !slices.Equal(had.Bind, []int{80}) ||
		!slices.Equal(had.Connect, []int{443, 5432}) {
		t.Errorf("grantsOf(job) = %+v", had)
	}
	next := grants.Grants{Unveil: []string{"r:/etc/passwd"}, Bind: []int{80, 81}, Connect: had.Connect}
	a, b := copied(j, map[taskName]grants.Grants{n: next}), copied(j, nil)
	g := a.TaskGroups[0]
	switch {
	case *a.ID == *b.ID || !strings.HasPrefix(*a.ID, "web-learn-") || *a.Name != *a.ID:
		t.Errorf("IDs of the copies = %q and %q, want two different ones with the prefix web-learn-", *a.ID, *b.ID)
	case *a.Type != "batch" || a.Update != nil || *g.Count != 1 || *g.RestartPolicy.Attempts != 0 || *g.ReschedulePolicy.Attempts != 0 ||
		g.Tasks[0].RestartPolicy != nil:
		t.Errorf("copy = %+v, want a batch job with count 1 and no retries", a)
	case !grantsOfCopy(g.Tasks[0].Config).Equal(next):
		t.Errorf("grants of the copy = %v", g.Tasks[0].Config)
	case g.Tasks[1].Config["unveil"] != nil:
		t.Error("task with driver raw_exec got paths")
	case *j.ID != "web" || *j.TaskGroups[0].Count != 3 || !grantsOf(j.TaskGroups[0].Tasks[0].Config).Equal(had):
		t.Errorf("original job was changed: %+v", j)
	}
}

// grantsOfCopy returns the grants in a config that granting returned.
func grantsOfCopy(config map[string]any) grants.Grants {
	block := config["network"].([]map[string]any)[0]
	return grants.Grants{Unveil: config["unveil"].([]string), Bind: block["bind"].([]int), Connect: block["connect"].([]int)}
}

func TestLearnable(t *testing.T) {
	boxed := sandboxed{"exec2": true, "raw_exec": false}
	if err := learnable(parsed(t, service), boxed); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string][2]string{
		"sysbatch":          {`type = "service"`, `type = "sysbatch"`},
		"system":            {`type = "service"`, `type = "system"`},
		"periodic":          {`type = "service"`, "type = \"batch\"\n periodic {\n crons = [\"* * * * *\"]\n }"},
		"parameterized":     {`type = "service"`, "type = \"batch\"\n parameterized {\n }"},
		"none of its tasks": {`"exec2"`, `"raw_exec"`},
	} {
		if err := learnable(parsed(t, strings.Replace(service, edit[0], edit[1], 1)), boxed); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that contains the name", name, err)
		}
	}
}

package jobspec_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
)

func TestErrorText(t *testing.T) {
	src := "job \"a\" {\n  group \"g\" {\n    cuont = 3\n  }\n}\n"
	_, err := jobspec.Parse(jobspec.Config{Filename: "hello.hcl", Source: []byte(src)})
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	for _, want := range []string{
		"hello.hcl:3:5: Unsupported argument: \"cuont\" is not expected here; expected one of: count, ",
		"\n   3 |     cuont = 3\n     |     ^^^^^",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("error lacks %q:\n%s", want, got)
		}
	}
}

// inTask returns a job file with text inside a task, from the fourth line on.
func inTask(text string) string {
	return "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n" + text + "\n    }\n  }\n}\n"
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"broken", "job \"a\" {\n  x = \n}\n", "a.hcl:2:7: Invalid expression"},
		{"open", "job \"a\" {\n", "Unclosed configuration block"},
		{"no job", "", "Missing job block"},
		{"two jobs", "job \"a\" {}\njob \"b\" {}\n", "Duplicate job block"},
		{"no label", "job {}\n", "a.hcl:1:1: Missing or extraneous label"},
		{"two labels", "job \"a\" \"b\" {}\n", "exactly one label"},
		{"extra label", "job \"a\" {\n  update \"x\" {\n  }\n}", "An update block has no label|A update block has no label"},
		{"root argument", "x = 1\njob \"a\" {}", "a.hcl:1:1: Unsupported argument"},
		{"root block", "resource \"x\" {}\njob \"a\" {}", "Unsupported block type"},
		{"unknown block", "job \"a\" {\n  gruop \"g\" {\n  }\n}",
			"A gruop block is not expected here; expected one of: affinity, constraint, group"},
		{"block as argument", "job \"a\" {\n  group = 1\n}", "\"group\" is a block"},
		{"argument as block", "job \"a\" {\n  region {\n  }\n}", "\"region\" is an argument"},
		{"twice", "job \"a\" {\n  update {}\n  update {}\n}", "Only one update block is allowed here; the first is at a.hcl:2"},
		{"two envs", inTask("env {}\nenv {}"), "a.hcl:5:1: Duplicate env block: Only one env block is allowed here; the first is at a.hcl:4"},
		{"two vaults", inTask("vault {}\nvault {}"), "a.hcl:5:1: Duplicate vault block: Only one vault block is allowed here; the first is at a.hcl:4"},
		{"two vaults of the job", "job \"a\" {\nvault {}\nvault {}\n}", "a.hcl:3:1: Duplicate vault block: Only one vault block is allowed here; the first is at a.hcl:2"},
		{"env twice", inTask("env = {}\nenv {}"), "a.hcl:5:1: Duplicate env block: Only one env block is allowed here; the first is at a.hcl:4"},
		{"distinct_hosts", inTask("constraint {\noperator = \"distinct_hosts\"\n}"),
			"a.hcl:4:1: Invalid constraint: The operator distinct_hosts is not allowed in a task"},
		{"distinct_hosts short", inTask("constraint { distinct_hosts = true }"),
			"a.hcl:4:1: Invalid constraint: The operator distinct_hosts is not allowed in a task"},
		{"distinct_property", inTask("constraint {}\nconstraint { distinct_property = \"x\" }"),
			"a.hcl:5:1: Invalid constraint: The operator distinct_property is not allowed in a task"},
		{"scaling without max", "job \"a\" {\n  group \"g\" {\n    scaling {\n      min = 1\n    }\n  }\n}",
			"a.hcl:3:5: Invalid scaling block: max is required"},
		{"scaling of another type", "job \"a\" {\n  group \"g\" {\n    scaling {\n      max = 1\n      type = \"vertical_cpu\"\n    }\n  }\n}",
			"a.hcl:3:5: Invalid scaling block: The type of this scaling block must be horizontal, not \"vertical_cpu\""},
		{"scaling with more min", "job \"a\" {\n  group \"g\" {\n    scaling {\n      min = 2\n      max = 1\n    }\n  }\n}",
			"not less than min"},
		{"scaling with max as text", "job \"a\" {\n  group \"g\" {\n    scaling {\n      max = \"many\"\n    }\n  }\n}",
			"a.hcl:4:13: Incorrect value: max must be an integer"},
		{"scaling of a task without max", inTask("scaling \"mem\" {}"), "a.hcl:4:1: Invalid scaling block: max is required"},
		{"scaling of a task, other type", inTask("scaling \"mem\" {\nmax = 1\ntype = \"vertical_cpu\"\n}"),
			"must be vertical_mem, not \"vertical_cpu\""},
		{"not a number", "job \"a\" {\n  priority = \"high\"\n}", "a.hcl:2:14: Incorrect value: priority must be an integer"},
		{"fraction", "job \"a\" {\n  priority = 1.5\n}", "has a fraction"},
		{"range", "job \"a\" {\n  affinity {\n    weight = 300\n  }\n}", "300 is out of range"},
		{"duration", "job \"a\" {\n  update {\n    stagger = \"3 sheep\"\n  }\n}", "must be a duration such as \"30s\""},
		{"list", "job \"a\" {\n  datacenters = \"dc1\"\n}", "datacenters must be a list of strings"},
		{"list element", "job \"a\" {\n  datacenters = [{}]\n}", "invalid element"},
		{"bool", "job \"a\" {\n  all_at_once = 3\n}", "must be a boolean"},
		{"function", "job \"a\" {\n  region = nofunc()\n}", "no function named \"nofunc\""},
		{"undeclared variable", "job \"a\" {\n  region = var.x\n}", "does not have an attribute named \"x\""},
		{"scaling label", "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      scaling \"disk\" {}\n    }\n  }\n}", "cpu or mem, not \"disk\""},
		{"two identities", "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      identity {}\n      identity {}\n    }\n  }\n}",
			"more than one identity block without a name"},
		{"volumes", "job \"a\" {\n  group \"g\" {\n    volume \"v\" {}\n    volume \"v\" {}\n  }\n}", "another volume block with the name \"v\""},
		{"cron and crons", "job \"a\" {\n  periodic {\n    cron = \"x\"\n    crons = [\"y\"]\n  }\n}", "cron and crons"},
		{"dynamic without content", "job \"a\" {\n  dynamic \"group\" {\n    for_each = []\n  }\n}", "needs for_each and a content block"},
		{"dynamic of a number", "job \"a\" {\n  dynamic \"group\" {\n    for_each = 3\n    content {}\n  }\n}",
			"must be a list, set, map or object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte(c.src)})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range strings.Split(c.want, "|") {
				if strings.Contains(err.Error(), want) {
					return
				}
			}
			t.Errorf("error lacks %q:\n%v", c.want, err)
		})
	}
}

// TestErrorsTogether checks that one error lists all faults of a file.
func TestErrorsTogether(t *testing.T) {
	_, err := jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte("job \"a\" {\n  x = 1\n  y = 2\n  z {}\n}")})
	if err == nil || strings.Count(err.Error(), "Unsupported") != 3 {
		t.Errorf("error %v, want 3 faults", err)
	}
}

func TestFormat(t *testing.T) {
	got, err := jobspec.Format("a.hcl", []byte("job \"a\" {\nx=1\n  long = 2\n}\n"))
	if want := "job \"a\" {\n  x    = 1\n  long = 2\n}\n"; err != nil || string(got) != want {
		t.Errorf("Format() = %q, %v, want %q", got, err, want)
	}
	if _, err := jobspec.Format("a.hcl", []byte("job {")); err == nil || !strings.Contains(err.Error(), "a.hcl:1:") {
		t.Errorf("Format of broken text: %v", err)
	}
}

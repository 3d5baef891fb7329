package jobrules_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// TestInput validates the jobs of testdata/input.txt, whose head describes the format.
func TestInput(t *testing.T) {
	text, err := os.ReadFile("testdata/input.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(string(text), "\n== ")[1:]
	if len(cases) < 40 {
		t.Fatalf("read only %d cases", len(cases))
	}
	for _, c := range cases {
		name, body, _ := strings.Cut(c, "\n")
		t.Run(name, func(t *testing.T) { checkInput(t, body) })
	}
}

func checkInput(t *testing.T, body string) {
	var j *nomad.Job
	want, warned, accepted := "", "", false
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case key == "job":
			j = sample(rest)
		case key == "in":
			place, fields, _ := strings.Cut(rest, ": ")
			part := map[string]any{"job": j, "group": j.TaskGroups[0], "task": j.TaskGroups[0].Tasks[0]}[place]
			if err := json.Unmarshal([]byte(fields), part); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		case key == "refused:":
			want = rest
		case key == "warned:":
			warned, accepted = rest, true
		case line == "accepted":
			accepted = true
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	jobrules.Canonicalize(j)
	err := jobrules.Validate(j)
	switch {
	case accepted && err != nil:
		t.Errorf("Validate() = %v, want no error", err)
	case accepted:
		got := strings.Join(jobrules.Warnings(j), "\n")
		if !strings.HasPrefix(got, warned) || warned == "" && strings.Contains(got, "impossible") || strings.Contains(got, "\n") {
			t.Errorf("Warnings() = %q, want %q", got, warned)
		}
	case !accepted && (want == "" || err == nil || !strings.HasPrefix(err.Error(), want)):
		t.Errorf("Validate() = %v, want %q", err, want)
	case !accepted && strings.Contains(err.Error(), "\n"):
		t.Errorf("Validate() = %v, want one error", err)
	}
}

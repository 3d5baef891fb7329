package command

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/cli"
)

// TestUnknown checks what is suggested for mistyped commands, and that arguments are not mistaken for them.
func TestUnknown(t *testing.T) {
	factories := map[string]cli.CommandFactory{}
	var hidden []string
	for _, c := range commands() {
		adapted := c.Adapt(nil, io.Discard, io.Discard)
		factories[c.Name] = func() (cli.Command, error) { return adapted, nil }
		if c.Hidden {
			hidden = append(hidden, c.Name)
		}
	}
	hidden = append(hidden, addGroups(factories, hidden)...)
	for args, want := range map[string]string{
		"jbo":               "Unknown command: nomad jbo\nDid you mean: nomad job",
		"job stauts":        "Unknown command: nomad job stauts\nDid you mean: nomad job status",
		"job rn -x":         "Unknown command: nomad job rn\nDid you mean: nomad job run",
		"acl polcy list":    "Unknown command: nomad acl polcy\nDid you mean: nomad acl policy",
		"deploy list":       "Unknown command: nomad deploy\nDid you mean: nomad deployment",
		"xyzzyplugh":        "Unknown command: nomad xyzzyplugh",
		"sentinal apply":    "Unknown command: nomad sentinal",
		"job":               "",
		"job run web.hcl":   "",
		"job status stauts": "",
		"-nosuchflag":       "",
		"":                  "",
	} {
		if got := unknown(strings.Fields(args), factories, hidden); got != want {
			t.Errorf("unknown(%q) = %q, want %q", args, got, want)
		}
	}
}

// TestUnknownFlag checks the error for a mistyped flag.
func TestUnknownFlag(t *testing.T) {
	for flag, want := range map[string]string{
		"-detahc":     "Did you mean: -detach\n",
		"-namespcae":  "Did you mean: -namespace\n",
		"--check-idx": "Did you mean: -check-index\n",
		"-qqqqq":      "",
	} {
		var errs bytes.Buffer
		c := named()["job run"]
		if code := c.Adapt(nil, io.Discard, &errs).Run([]string{flag, "web.hcl"}); code != 1 {
			t.Errorf("job run %s: exit code %d, want 1", flag, code)
		}
		got := errs.String()
		if !strings.Contains(got, "flag provided but not defined: ") || !strings.Contains(got, want) || want == "" &&
			strings.Contains(got, "Did you mean") {
			t.Errorf("job run %s prints %q, want %q", flag, got, want)
		}
	}
}

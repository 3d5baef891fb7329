package command

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// upstreamTable is the table that testdata/commands.tsv was made from. It is outside the repository.
const upstreamTable = "../../shared/compat/cli.tsv"

const enterpriseOnly = "Nomad Enterprise only"

// refusedCommands are the commands of Nomad that this version refuses, and why.
var refusedCommands = map[string]string{
	"sentinel": enterpriseOnly, "sentinel apply": enterpriseOnly, "sentinel delete": enterpriseOnly, "sentinel list": enterpriseOnly,
	"sentinel read":  enterpriseOnly,
	"recommendation": enterpriseOnly, "recommendation apply": enterpriseOnly, "recommendation dismiss": enterpriseOnly,
	"recommendation info": enterpriseOnly, "recommendation list": enterpriseOnly,
	"windows": "Windows is not supported", "windows service install": "Windows is not supported",
	"windows service uninstall": "Windows is not supported",
}

// TestRefusedCommands checks that each refused command has a reason. TestEveryCommand checks that
// each command of Nomad is in the table.
func TestRefusedCommands(t *testing.T) {
	refused := map[string]bool{}
	for name, c := range named() {
		refused[name] = c.Refused != ""
		if refused[name] && refusedCommands[name] == "" {
			t.Errorf("%s is refused without a reason: build it, or add it to refusedCommands", name)
		}
	}
	for name := range refusedCommands {
		if !refused[name] {
			t.Errorf("%s is not refused: remove it from refusedCommands", name)
		}
	}
}

// withoutDefault matches what follows the type of a flag in the table.
var withoutDefault = regexp.MustCompile(`(\?|=|\().*$`)

// TestCommandsOfTable checks testdata/commands.tsv against the table that it was made from.
func TestCommandsOfTable(t *testing.T) {
	table, err := os.ReadFile(upstreamTable)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not on this machine", upstreamTable)
	}
	if err != nil {
		t.Fatal(err)
	}
	own := map[string][]string{}
	for line := range strings.Lines(upstream) {
		if f := strings.Split(strings.TrimRight(line, "\n"), "\t"); len(f) == 3 {
			own[f[0]] = append(strings.Fields(f[2]), f[1])
		}
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.ContainsAny(f[0][:1], "#@$") || f[0] == "command" {
			continue
		}
		general := "-"
		if f[3] == "y" {
			general = "general"
		}
		want := []string{}
		for _, flag := range strings.Fields(f[4]) {
			if name, kind, ok := strings.Cut(flag, ":"); ok {
				want = append(want, name+":"+withoutDefault.ReplaceAllString(kind, ""))
			}
		}
		want = append(want, general)
		if got := own[f[0]]; !slices.Equal(got, want) {
			t.Errorf("testdata/commands.tsv has %q with %q, the table has %q", f[0], got, want)
		}
		delete(own, f[0])
	}
	for name := range own {
		t.Errorf("testdata/commands.tsv has %q, the table does not", name)
	}
}

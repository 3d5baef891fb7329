package command

import (
	"os"
	"strings"
	"testing"
)

// goldenDir holds the golden files of e2e, NAME.txt or NAME-STATE.txt for each command.
const goldenDir = "../e2e/testdata/golden"

// TestEveryCommandHasGoldenFile walks the commands of this version: a golden file
// shows what each prints. TestEveryCommand checks the refused ones.
func TestEveryCommandHasGoldenFile(t *testing.T) {
	files, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, f := range files {
		shown[commandOf(strings.TrimSuffix(f.Name(), ".txt"))] = true
	}
	for _, c := range commands() {
		if c.Refused == "" && !shown[c.Name] {
			t.Errorf("%s: no golden file in %s: add the command to e2e/testdata/script/golden_*.txtar, then\n"+
				"UPDATE_SCRIPTS=1 go test -tags companion ./e2e -run TestScripts/golden", c.Name, goldenDir)
		}
	}
}

// commandOf returns the command that a golden file belongs to: agent-info-no_agent is
// of agent-info, not of agent.
func commandOf(file string) string {
	longest := ""
	for _, c := range commands() {
		name := strings.ReplaceAll(c.Name, " ", "_")
		if (file == name || strings.HasPrefix(file, name+"-")) && len(c.Name) > len(longest) {
			longest = c.Name
		}
	}
	return longest
}

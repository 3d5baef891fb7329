package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestFullDisk prints the help of every command, and the version, to a full disk. Each fails with one line.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this machine has no /dev/full: %v", err)
	}
	defer full.Close()
	run := func(name string, args ...string) {
		var stderr bytes.Buffer
		code := named()[name].Adapt(strings.NewReader(""), full, &stderr).Run(args)
		if text := stderr.String(); code != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "no space left on device") {
			t.Errorf("%s %q: exit code %d, error %q", name, args, code, text)
		}
	}
	for _, c := range commands() {
		if c.Refused == "" {
			run(c.Name, "-h")
		}
	}
	run("version")
}

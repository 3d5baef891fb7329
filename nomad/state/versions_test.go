package state_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
)

var update = flag.Bool("update", false, "rewrite the results in testdata")

// TestKeptVersions runs testdata/versions.txt. The line after a step that begins with ">" lists the kept versions;
// -update rewrites it. After "---" a new job begins.
func TestKeptVersions(t *testing.T) {
	const file = "testdata/versions.txt"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := newWorld(t)
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, ">"):
			continue
		case len(words) == 0 || words[0] == "#":
			out.WriteString(line)
			continue
		case words[0] == "---":
			w = newWorld(t)
			out.WriteString(line)
			continue
		}
		w.versionStep(words)
		out.WriteString(line + ">" + w.kept() + "\n")
	}
	switch got := out.String(); {
	case *update:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != string(raw):
		t.Errorf("%s is\n%s\nthe result is\n%s", file, raw, got)
	}
}

func (w *world) versionStep(words []string) {
	w.t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	var err error
	switch words[0] {
	case "register":
		for range number(words[1]) {
			w.job("web")
		}
	case "stable":
		_, err = w.SetJobStability(w.next(), &message.JobStabilityRequest{JobID: "web", JobVersion: uint64(number(words[1])), Stable: true,
			WriteRequest: message.WriteRequest{Namespace: "default"}})
	case "tag":
		err = w.tag(words[1], number(words[2]))
	case "untag":
		err = w.tag(words[1], -1)
	default:
		w.t.Fatalf("unknown step %q", words)
	}
	if err != nil {
		w.t.Fatalf("%v: %v", words, err)
	}
}

// kept lists the versions of the job, newest first.
func (w *world) kept() string {
	out := ""
	for _, v := range w.snap().JobVersions(nil, "default", "web") {
		out += fmt.Sprint(" ", v.Version)
		if v.Stable {
			out += "*"
		}
		if v.VersionTag != nil {
			out += "=" + v.VersionTag.Name
		}
	}
	return out
}

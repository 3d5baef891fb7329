package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// goldenDir holds the expected output of commands, one file per command and state.
const goldenDir = "testdata/golden"

// volatile lists the parts of an output that differ between runs, and their replacements.
var volatile = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "<id>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<time>"},
	{regexp.MustCompile(`\b((\d+(y|mo|d|h|m|s))+|\d+ms|0s) ago\b`), "<ago>"},
	{regexp.MustCompile(`"(\w*(Time|Index|StartedAt|FinishedAt|Time[A-Z]\w*))": \d+`), `"$1": <number>`},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "<address>"},
	{regexp.MustCompile(`([^ \n]) {2,}`), "$1  "},
	{regexp.MustCompile(`-{4,}`), "----"},
	{regexp.MustCompile(` +\n`), "\n"},
}

// golden compares the output of the last command, standard output and then standard error, with the
// file testdata/golden/NAME.txt. Further arguments are regular expressions for parts that differ
// between runs. UPDATE_SCRIPTS=1 rewrites the file.
func golden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: golden NAME [regexp...]")
	}
	got := stable(ts, ts.ReadFile("stdout"), args[1:])
	if errs := stable(ts, ts.ReadFile("stderr"), args[1:]); errs != "" {
		got += "--- stderr ---\n" + errs
	}
	file := filepath.Join(ts.Value(goldenKey{}).(string), args[0]+".txt")
	want, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	if err == nil && got == string(want) {
		return
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		ts.Check(os.WriteFile(file, []byte(got), 0o644))
		return
	}
	ts.Fatalf("the output differs from %s\n--- got ---\n%s--- want ---\n%s", file, got, want)
}

type goldenKey struct{}

// stable replaces the parts that differ between runs.
func stable(ts *testscript.TestScript, text string, more []string) string {
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	for _, pattern := range more {
		re, err := regexp.Compile("(?m)" + pattern)
		ts.Check(err)
		text = re.ReplaceAllString(text, "<_>")
	}
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}

// code runs a command that must end with an exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG…]")
	}
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, not %s", got, args[0])
	}
}

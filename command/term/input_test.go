package term

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name        string
		limit       int
		want, fault string
	}{
		{file, 9, "of a file", ""},
		{file, 8, "", "is larger than 8 B"},
		{"-", 20, "of standard input", ""},
		{"-", 3, "", "- is larger than"},
		{file + "x", 9, "", "no such file"},
		{filepath.Dir(file), 9, "", "is a directory"},
	} {
		e := &Env{In: strings.NewReader("of standard input")}
		got, err := e.Input(tt.name, tt.limit)
		if string(got) != tt.want || (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("Input(%q, %d) = %q, %v, want %q and %q", tt.name, tt.limit, got, err, tt.want, tt.fault)
		}
	}
}

// A command that asks fails if the input ends before an answer. A "no" is not an error.
func TestConfirm(t *testing.T) {
	for _, tt := range []struct {
		in, want, fault string
		code            int
	}{
		{"y\n", "Sure? done", "", 0},
		{" YES", "Sure? done", "", 0},
		{"n\n", "Sure? canceled", "", 0},
		{"\n", "Sure? canceled", "", 0},
		{"", "Sure? \ncanceled", "standard input ended before an answer: use -yes to answer yes without a question\n", 1},
	} {
		ask := Command{Name: "ask", Local: true, Setup: func(*Flags) Run {
			return func(_ context.Context, e *Env) error {
				if e.Confirm("Sure?") {
					e.Printf("done")
				} else {
					e.Printf("canceled")
				}
				return nil
			}
		}}
		var out, errs strings.Builder
		code := ask.Adapt(strings.NewReader(tt.in), &out, &errs).Run(nil)
		if code != tt.code || out.String() != tt.want || errs.String() != tt.fault {
			t.Errorf("the answer %q: exit code %d, output %q, error %q", tt.in, code, out.String(), errs.String())
		}
	}
}

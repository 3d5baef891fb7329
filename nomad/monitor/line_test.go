package monitor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// secret is a value that must not be printed.
type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("hidden") }

// record logs one record with values of several kinds.
func record(f monitor.Format) string {
	var b bytes.Buffer
	f.Level = monitor.LevelTrace
	log := slog.New(f.Handler(&b)).With(monitor.ModuleKey, "client", "node", "n 1")
	log.WithGroup("g").Warn("task failed", "code", 7, "err", errors.New("no = such\nfile"), "for", 2*time.Second, "empty", "",
		"token", secret("s3cret"), slog.Group("in", "a", true), "list", []string{"x"})
	return b.String()
}

func TestText(t *testing.T) {
	got := record(monitor.Format{})
	want := `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d) \[WARN\]  client: task failed: ` +
		regexp.QuoteMeta(`node="n 1" g.code=7 g.err="no = such\nfile" g.for=2s g.empty="" g.token=hidden g.in.a=true g.list=[x]`) + "\n$"
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("line = %q, want %s", got, want)
	}
	if got := record(monitor.Format{Location: true}); !strings.Contains(got, "[WARN]  monitor/line_test.go:") {
		t.Errorf("line with location = %q", got)
	}
}

// A record is one line, whatever its message contains.
func TestTextOfOneLine(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(monitor.Format{Level: slog.LevelInfo}.Handler(&b))
	log.Info("a\n2026-01-01T00:00:00.000Z [ERROR] agent: forged", "k\ney", "v")
	log.Debug("not written")
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `[INFO]  agent: "a\n2026`) ||
		!strings.Contains(got, `"k\ney"=v`) {
		t.Errorf("lines = %q", got)
	}
}

func TestJSON(t *testing.T) {
	got := record(monitor.Format{JSON: true, Location: true})
	var line map[string]any
	if err := json.Unmarshal([]byte(got), &line); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	for key, want := range map[string]any{"@level": "warn", "@message": "task failed", "@module": "client", "node": "n 1", "g.code": 7.0,
		"g.err": "no = such\nfile", "g.for": "2s", "g.token": "hidden", "g.in.a": true} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
	if at, _ := line["@timestamp"].(string); !regexp.MustCompile(`T\d\d:\d\d:\d\d\.\d{6}`).MatchString(at) {
		t.Errorf("@timestamp = %q", at)
	}
	if caller, _ := line["@caller"].(string); !strings.HasPrefix(caller, "monitor/line_test.go:") {
		t.Errorf("@caller = %q", caller)
	}
	if strings.Contains(got, "s3cret") {
		t.Error("the line has a secret")
	}
}

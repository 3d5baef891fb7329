package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// say writes a line to a log file.
func say(t *testing.T, l *logFile, line string) {
	t.Helper()
	if _, err := l.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// read returns the content of each file of a directory: renamed files in order, then the current
// file.
func read(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "nomad*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names) // "nomad-1.log" is before "nomad.log"
	var out []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSpace(string(text)))
	}
	return out
}

func TestLogFileRotates(t *testing.T) {
	cases := map[string]struct {
		set  func(*config.Config)
		want []string
	}{
		"never":         {func(c *config.Config) { c.LogRotateDuration = 0 }, []string{"a\nb\nc\nd"}},
		"by age":        {func(*config.Config) {}, []string{"a\nb", "c\nd"}},
		"by size":       {func(c *config.Config) { c.LogRotateBytes = 3 }, []string{"a", "b", "c", "d"}},
		"keeps one":     {func(c *config.Config) { c.LogRotateBytes, c.LogRotateMaxFiles = 3, 1 }, []string{"c", "d"}},
		"keeps no more": {func(c *config.Config) { c.LogRotateBytes, c.LogRotateMaxFiles = 3, -1 }, []string{"d"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				s := config.Default()
				s.LogFile = dir + "/logs/"
				c.set(&s.Config)
				l, err := openLogFile(s)
				if err != nil {
					t.Fatal(err)
				}
				defer l.close()
				for _, line := range []string{"a", "b", "c", "d"} {
					say(t, l, line)
					time.Sleep(13 * time.Hour) // of the bubble: b is at 13 h, c at 26 h, d at 39 h
				}
				if got := read(t, dir+"/logs"); !slices.Equal(got, c.want) {
					t.Errorf("files hold %q, want %q", got, c.want)
				}
			})
		})
	}
}

// The file is continued after a restart, and reopened after another program renamed it.
func TestLogFileGoesOn(t *testing.T) {
	s := config.Default()
	s.LogFile = filepath.Join(t.TempDir(), "nomad.log")
	for _, line := range []string{"a", "b"} {
		l, err := openLogFile(s)
		if err != nil {
			t.Fatal(err)
		}
		say(t, l, line)
		if line == "b" {
			if err := os.Rename(s.LogFile, s.LogFile+".1"); err != nil {
				t.Fatal(err)
			}
			if err := l.reopen(); err != nil {
				t.Fatal(err)
			}
			say(t, l, "c")
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{s.LogFile + ".1": "a\nb\n", s.LogFile: "c\n"} {
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("%s holds %q, %v, want %q", path, got, err, want)
		}
	}
	if info, err := os.Stat(s.LogFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestLogFileThatCannotBe(t *testing.T) {
	s := config.Default()
	s.LogFile = "/proc/nope/nomad.log"
	if _, err := openLogFile(s); err == nil || !strings.Contains(err.Error(), "log_file") {
		t.Errorf("openLogFile() = %v", err)
	}
}

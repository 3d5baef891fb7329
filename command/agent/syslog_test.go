package agent

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// daemon is a syslog socket that returns what it gets.
func daemon(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	buf := make([]byte, 64<<10)
	return path, func() string {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// Records reach the daemon with the facility and their severity, in the format of the log, and the
// log itself gets them too.
func TestSyslog(t *testing.T) {
	for _, c := range []struct {
		facility string
		json     bool
		level    string
		want     []string // priority and a part
	}{
		{"local0", false, "DEBUG", []string{"<135>", ": fine", "<134>", ": hello: part=a", "<132>", ": odd", "<131>", ": bad"}},
		{"DAEMON", true, "WARN", []string{"<28>", `"@message":"odd"`, "<27>", `"@message":"bad"`}},
	} {
		path, next := daemon(t)
		s := config.Default()
		s.EnableSyslog, s.SyslogFacility, s.LogJSON, s.LogLevel = true, c.facility, c.json, c.level
		sink, err := openSyslog(s, "unixgram", path)
		if err != nil {
			t.Fatal(err)
		}
		var own bytes.Buffer
		log, _, err := newLog(&own, s, monitor.New(monitor.Config{}), sink)
		if err != nil {
			t.Fatal(err)
		}
		log = log.With("part", "a")
		log.Debug("fine")
		log.Info("hello")
		log.Warn("odd")
		log.Error("bad")
		for i := 0; i < len(c.want); i += 2 {
			if got := next(); !strings.HasPrefix(got, c.want[i]) || !strings.Contains(got, " nomad[") || !strings.Contains(got, c.want[i+1]) {
				t.Errorf("%s: got %q, want %s and %s", c.facility, got, c.want[i], c.want[i+1])
			}
		}
		if err := sink.close(); err != nil {
			t.Error(err)
		}
		log.Error("after the end")
		if n := strings.Count(own.String(), "\n"); n != len(c.want)/2+1 {
			t.Errorf("the log has %d lines: %s", n, own.String())
		}
	}
}

// A daemon that does not read neither blocks the agent nor its end.
func TestSyslogHangs(t *testing.T) {
	path, next := daemon(t)
	s := config.Default()
	s.EnableSyslog = true
	sink, err := openSyslog(s, "unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := newLog(io.Discard, s, monitor.New(monitor.Config{}), sink)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		log.Info(strings.Repeat("x", 1000))
	}
	if sink.dropped.Load() == 0 {
		t.Error("no line was dropped")
	}
	for text := ""; !strings.Contains(text, "[WARN] syslog dropped "); {
		text = next()
	}
	if err := sink.close(); err != nil {
		t.Log(err) // the daemon reads no more
	}
}

func TestSyslogRefusals(t *testing.T) {
	s := config.Default()
	if sink, err := openSyslog(s, "unixgram", "/nowhere"); sink != nil || err != nil {
		t.Errorf("without enable_syslog: %v, %v", sink, err)
	}
	s.EnableSyslog = true
	if _, err := openSyslog(s, "unixgram", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "enable_syslog") {
		t.Errorf("without a daemon: %v", err)
	}
	s.SyslogFacility = "LOCAL9"
	if _, err := openSyslog(s, "", ""); err == nil || !strings.Contains(err.Error(), "LOCAL9") {
		t.Errorf("unknown facility: %v", err)
	}
}

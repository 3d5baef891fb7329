package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/logsink"
)

func sinkFile(block string) map[string]string {
	return map[string]string{"a.hcl": "data_dir = \"/var/nomad\"\nclient {\n enabled = true\n" + block + "\n}\n"}
}

func TestLogSinkFaults(t *testing.T) {
	for text, want := range map[string]string{
		`log_sink "syslog" {}`:                                                              `client.log_sink.syslog: "syslog" is not a log sink: use journald or otlp`,
		"log_sink \"journald\" {\n socket = \"x\"\n}":                                       `client.log_sink.journald.socket: "x" is not an absolute path`,
		"log_sink \"journald\" {\n endpoint = \"http://x\"\n}":                              "client.log_sink.journald: the sink journald has the key socket only",
		`log_sink "otlp" {}`:                                                                "client.log_sink.otlp: set endpoint",
		"log_sink \"otlp\" {\n endpoint = \"collector:4318\"\n}":                            "client.log_sink.otlp.endpoint: must be an http or https URL",
		"log_sink \"otlp\" {\n endpoint = \"http://u:p@x\"\n}":                              "without a user",
		"log_sink \"otlp\" {\n endpoint = \"http://x\"\n socket = \"/x\"\n}":                "client.log_sink.otlp.socket: belongs to the sink journald",
		"log_sink \"otlp\" {\n endpoint = \"http://x\"\n ca_file = \"/x\"\n}":               "is http, so that ca_file",
		"log_sink \"otlp\" {\n endpoint = \"https://x\"\n cert_file = \"/x\"\n}":            "cert_file and key_file must be set together",
		"log_sink \"otlp\" {\n endpoint = \"https://x\"\n headers {\n a = \"b\\nc\"\n }\n}": `client.log_sink.otlp.headers: "a" is not a header`,
	} {
		_, err := load(t, sinkFile(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: the error has the password: %v", text, err)
		}
	}
}

func TestLogSinks(t *testing.T) {
	s, err := load(t, sinkFile("log_sink \"journald\" {}\nlog_sink \"otlp\" {\n endpoint = \"https://x/v1/logs\"\n headers {\n"+
		" x-team = \"hush-hush\"\n }\n}"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.logSinks()
	if err != nil {
		t.Fatal(err)
	}
	if got.Journal != logsink.JournalSocket || got.OTLP.Endpoint != "https://x/v1/logs" || got.OTLP.Headers["X-Team"] != "hush-hush" {
		t.Errorf("sinks %+v", got)
	}
	if shown := fmt.Sprint(s.Redacted()); strings.Contains(shown, "hush") || !strings.Contains(shown, "x-team:<redacted>") {
		t.Errorf("the configuration as shown has a header: %s", shown)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = load(t, sinkFile("log_sink \"otlp\" {\n endpoint = \"https://x\"\n ca_file = \""+file+"\"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.logSinks(); err == nil || !strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("a CA file without a certificate: %v", err)
	}
}

package agent_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/internal/testdisk"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// auditLine contains the event fields that these tests read.
type auditLine struct {
	Payload struct {
		Stage, Type string
		Auth        struct{ Kind string }
		Request     struct {
			ID, Operation, Endpoint string
			Meta                    struct {
				Address string `json:"remote_address"`
			} `json:"request_meta"`
		}
		Response *struct {
			Status int `json:"status_code"`
			Error  string
		}
	}
}

func auditLines(t *testing.T, path string) (out []auditLine) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e auditLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// send sends a request to an agent and returns its status or error.
func send(t *testing.T, a *agent.Agent, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+a.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// tokens finds signed tokens.
var tokens = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// An agent with ACLs, a job and variables records each request twice and no secrets.
func TestAgentIsAudited(t *testing.T) {
	dir := clienttest.Dir(t)
	a, stop := run(t, "-dev", "-data-dir", dir, "-config", write(t, free+"audit { enabled = true }\nacl { enabled = true }\n"))
	path := filepath.Join(dir, "audit", "audit.log")
	var boot struct{ AccessorID, SecretID string }
	asked := 0
	testpace.Until(t, "there is a first token", func() bool { // the leader may not be ready
		asked++
		status, text := send(t, a, "PUT", "/v1/acl/bootstrap", "")
		return status == http.StatusOK && json.Unmarshal([]byte(text), &boot) == nil && boot.SecretID != ""
	})
	held := boot.SecretID
	secrets := []string{held, "c4nary"}
	entries := []string{"X-Nomad-Token", held}
	job := `{"Job": {"ID": "j", "Type": "batch", "Meta": {"m": "c4nary"}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "main", "Driver": "mock_driver",
		"Env": {"PASSWORD": "c4nary"}, "Config": {"run_for": "1h"}, "Identities": [{"Name": "x", "Audience": ["a"], "TTL": 3600000000000, "File": true}], "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}}`
	jwt := "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.Y2FuYXJ5"
	var client, oneTime string
	for _, r := range []struct {
		method, path, body string
		header             []string
	}{
		{"PUT", "/v1/jobs", job, entries},
		{"PUT", "/v1/jobs", strings.Replace(job, `"j"`, `"c4 nary"`, 1), nil},
		{"PUT", "/v1/jobs", strings.Replace(job, `"PASSWORD": "c4nary"`, `"PASSWORD": {"c4nary": 1}`, 1), entries},
		{"PUT", "/v1/jobs", `{"Job": {"ID": "k", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Env": {"A\u0000": "c4nary"}}]}]}}`, entries},
		{"PUT", "/v1/var/app/db", `{"Items": {"k": "c4nary"}}`, entries},
		{"PUT", "/v1/var/app/db?cas=99999", `{"Items": {"k": "c4nary2"}}`, entries},
		{"PUT", "/v1/var/app/db", `{"Items": {"k": ["c4nary"]}}`, entries},
		{"PUT", "/v1/var/app/db?cas=c4nary", `{"Items": {"k": "c4nary"}}`, entries},
		{"GET", "/v1/var/app/db", "", entries},
		{"GET", "/v1/var/app/db", "", nil},
		{"GET", "/v1/vars?prefix=app", "", entries},
		{"DELETE", "/v1/var/app/db?cas=1", "", entries},
		{"GET", "/v1/jobs?token=" + held, "", nil},
		{"GET", "/v1/jobs?stale=" + held, "", nil},
		{"GET", "/v1/jobs?index=c4nary", "", entries},
		{"GET", "/v1/jobs", "", []string{"Authorization", "Bearer " + jwt}},
		{"GET", "/v1/jobs", "", []string{"X-Nomad-Token", "c4nary-token"}},
		{"GET", "/v1/jobs", "", []string{"User-Agent", "curl " + jwt, "Cookie", "c4nary", "X-Other", "c4nary"}},
		{"GET", "/v1/" + jwt, "", nil},
		{"GET", "/v1/agent/self", "", entries},
		{"GET", "/v1/acl/tokens", "", entries},
		{"GET", "/v1/acl/token/self", "", entries},
		{"PUT", "/v1/acl/policy/p", `{"Name": "p", "Rules": "namespace \"default\" { policy = \"read\" } # c4nary"}`, entries},
		{"PUT", "/v1/acl/policy/q", `{"Name": "q", "Rules": "namespace \"default\" { c4nary = \"c4nary\" }"}`, nil},
		{"PUT", "/v1/acl/role", `{"Name": "r", "Policies": [{"Name": "p"}]}`, entries},
		{"PUT", "/v1/acl/token", `{"Name": "n", "Type": "management"}`, entries},
		{"PUT", "/v1/acl/token", `{"Name": "n", "Type": "client", "Policies": ["p"], "Roles": [{"Name": "r"}]}`, entries},
		{"PUT", "/v1/acl/token/" + boot.AccessorID, `{"AccessorID": "` + boot.AccessorID + `", "SecretID": "` + held +
			`", "Name": "renamed", "Type": "management"}`, entries},
		{"GET", "/v1/acl/token/" + boot.AccessorID, "", entries},
		{"GET", "/v1/acl/token/" + held, "", entries},
		{"PUT", "/v1/acl/token/onetime", "", entries},
		{"PUT", "/v1/acl/token/onetime/exchange", `{"OneTimeSecretID": "c4nary"}`, entries},
		{"PUT", "/v1/acl/token/onetime/exchange", `{"OneTimeSecretID": "ONETIME"}`, nil},
		{"GET", "/v1/jobs", "", []string{"X-Nomad-Token", "CLIENT"}},
		{"PUT", "/v1/var/app/denied", `{"Items": {"k": "c4nary"}}`, []string{"X-Nomad-Token", "CLIENT"}},
		{"PUT", "/v1/acl/identity/client-introduction-token", `{}`, entries},
		{"GET", "/v1/operator/keyring/keys", "", entries},
		{"GET", "/v1/allocations", "", entries},
		{"GET", "/v1/metrics", "", entries},
		{"GET", "/.well-known/jwks.json", "", nil},
		{"GET", "/v1/jobs/a%0aforged", "", nil},
	} {
		asked++
		header := slices.Clone(r.header)
		for i := range header {
			header[i] = strings.ReplaceAll(header[i], "CLIENT", client)
		}
		status, text := send(t, a, r.method, r.path, strings.ReplaceAll(r.body, "ONETIME", oneTime), header...)
		if status == http.StatusInternalServerError {
			t.Errorf("%s %s = %d %s", r.method, r.path, status, text)
		}
		secrets = append(secrets, tokens.FindAllString(text, -1)...)
		var made struct {
			SecretID, Type string
			OneTimeToken   struct{ OneTimeSecretID string }
		}
		if json.Unmarshal([]byte(text), &made) == nil {
			secrets = append(secrets, made.SecretID, made.OneTimeToken.OneTimeSecretID)
			oneTime = cmp.Or(made.OneTimeToken.OneTimeSecretID, oneTime)
			if made.Type == "client" {
				client = made.SecretID
			}
		}
	}
	testpace.Until(t, "the tokens of the job are on record", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && bytes.Contains(b, []byte(":default:j:g:main:default")) && bytes.Contains(b, []byte(":default:j:g:main:x"))
	})
	stop()

	received, complete := map[string]auditLine{}, map[string]auditLine{}
	kinds := map[string]bool{}
	for _, e := range auditLines(t, path) {
		kinds[e.Payload.Type] = true
		if e.Payload.Type != "HTTPEvent" || e.Payload.Request.Meta.Address == "unix" {
			continue
		}
		if e.Payload.Stage == "OperationReceived" {
			received[e.Payload.Request.ID] = e
		} else {
			complete[e.Payload.Request.ID] = e
		}
	}
	if len(received) != asked || len(complete) != asked {
		t.Errorf("%d and %d events of %d requests", len(received), len(complete), asked)
	}
	for id, e := range received {
		if end := complete[id].Payload; end.Request != e.Payload.Request || end.Response == nil || end.Auth != e.Payload.Auth {
			t.Errorf("%+v ended as %+v", e, end)
		}
	}
	if !kinds["IdentityEvent"] || client == "" || oneTime == "" {
		t.Errorf("recorded are only %v", kinds)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{`"name":"n","kind":"client","policies":["p"],"roles":["r"]`, `"kind":"management"`, `"kind":"anonymous"`,
		`"kind":"invalid"`,
		`"endpoint":"/v1/acl/token/[secret]"`, `"status_code":403,"error":"needs `} {
		if !bytes.Contains(b, []byte(said)) {
			t.Errorf("the record does not say %s", said)
		}
	}
	for _, s := range secrets {
		if at := bytes.Index(b, []byte(s)); s != "" && at >= 0 {
			t.Errorf("the record holds a secret: ...%s...", bytes.ReplaceAll(b[max(0, at-300):at], []byte("\n"), []byte(" ")))
		}
	}
	if m := tokens.Find(b); m != nil {
		t.Errorf("the record holds a token of %d bytes", len(m))
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// SIGHUP reopens a renamed file, applies filters, and disables and enables the log.
func TestReloadAudit(t *testing.T) {
	dir := clienttest.Dir(t)
	conf := write(t, free)
	a, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", dir, "-config", conf)
	path := filepath.Join(dir, "audit", "audit.log")
	become := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(conf, []byte(free+text), 0o600), a.Reload()); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		t.Helper()
		send(t, a, "GET", "/v1/status/leader", "")
		n := 0
		for _, e := range auditLines(t, path) {
			if e.Payload.Request.Endpoint == "/v1/status/leader" {
				n++
			}
		}
		return n
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an agent without audit has a log: %v", err)
	}
	become("audit { enabled = true }")
	if n := count(); n != 2 {
		t.Errorf("%d events after the log was turned on", n)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	become("audit { enabled = true }")
	if n := count(); n != 2 {
		t.Errorf("%d events in the new file", n)
	}
	become("audit {\n enabled = true\n filter \"f\" {\n type = \"HTTPEvent\"\n endpoints = [\"/v1/status/*\"]\n" +
		" stages = [\"OperationReceived\"]\n}\n}")
	if n := count(); n != 3 {
		t.Errorf("%d events with a filter", n)
	}
	if err := os.WriteFile(conf, []byte(free+"audit {\n enabled = true\n sink \"s\" {\n path = \""+filepath.Dir(path)+"\"\n}\n}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("Reload() with a bad path = %v", err)
	}
	if n := count(); n != 4 {
		t.Errorf("%d events after a reload that failed", n)
	}
	become("")
	if n := count(); n != 4 {
		t.Errorf("%d events after the log was turned off", n)
	}
}

// With a full disk, an enforced log rejects HTTP requests before they have any effect. A
// best-effort log does not.
func TestAuditOnAFullDisk(t *testing.T) {
	small := testdisk.New(t, "64k", false).Dir
	path := filepath.Join(small, "audit.log")
	text := func(guarantee string) string {
		return free + "audit {\n enabled = true\n sink \"s\" {\n path = \"" + path + "\"\n delivery_guarantee = \"" + guarantee + "\"\n}\n}\n"
	}
	conf := write(t, text("enforced"))
	a, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", conf)
	testpace.Until(t, "there is a leader", func() bool { var l string; return get(a, "/v1/status/leader", &l) == nil && l != "" })
	put := func(id string) (int, string) {
		return send(t, a, "PUT", "/v1/var/"+id, `{"Items": {"k": "v"}}`)
	}
	if status, body := put("before"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	status, body := 0, ""
	for i := 0; i < 1000 && status != http.StatusInternalServerError; i++ {
		status, body = send(t, a, "GET", "/v1/status/leader", "")
	}
	if status != http.StatusInternalServerError || !strings.Contains(body, "audit log") {
		t.Fatalf("the disk does not get full: %d %s", status, body)
	}
	// Fill the space in which a shorter event would still fit.
	if err := os.WriteFile(filepath.Join(small, "rest"), make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("there was room")
	}
	if status, body := put("during"); status != http.StatusInternalServerError ||
		!strings.Contains(body, "audit log: the request could not be recorded, and was not run") {
		t.Errorf("an unrecorded write: %d %s", status, body)
	}
	if err := errors.Join(os.WriteFile(conf, []byte(text("best-effort")), 0o600), a.Reload()); err != nil {
		t.Fatal(err)
	}
	if status, body := send(t, a, "GET", "/v1/var/during", ""); status != http.StatusNotFound {
		t.Errorf("a rejected write was executed: %d %s", status, body)
	}
	if status, body := put("after"); status != http.StatusOK {
		t.Errorf("best-effort: %d %s", status, body)
	}
	var metrics struct {
		Counters []struct{ Name string }
	}
	testpace.Until(t, "the metric counts it", func() bool {
		return get(a, "/v1/metrics", &metrics) == nil && strings.Contains(fmt.Sprint(metrics.Counters), "nomad.audit.failed")
	})
	auditLines(t, path) // each is whole
}

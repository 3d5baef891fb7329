package bundle

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestScrub(t *testing.T) {
	s := newScrubber(&api.Config{SecretID: "canary-token",
		HttpAuth: &api.HttpBasicAuth{Username: "u", Password: "canary-password"}})
	for _, in := range []string{
		"a canary-token b", "u:canary-password", "jwt eyJhbGciOiJFZERTQSJ9.eyJjYW5hcnkiOjF9.canary-signature",
		"-----BEGIN EC PRIVATE KEY-----\ncanary\n-----END EC PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----canary", `header "X-Nomad-Token: canary"`, "X-Consul-Token: canary", "X-Nomad-CSI-Secrets: password=canary,user=canary", "Authorization: Bearer canary", "GET /v1/x?token=canary&a=b",
		"https://user:canary@host/x",
		"vault_token=canary", "AWS_SECRET_ACCESS_KEY=canary", "encrypt=canary", "git::ssh://git@host/x?sshkey=canary&ref=a",
		"s3::https://host/x?X-Amz-Signature=canary",
	} {
		if out := s.text(in); strings.Contains(out, "canary") || !strings.Contains(out, redacted) {
			t.Errorf("text(%q) = %q", in, out)
		}
	}
	for _, in := range []string{"plain text", "token rotated", `msg="a key" key=1b2c`, "https://host:4646/v1/jobs"} {
		if out := s.text(in); out != in {
			t.Errorf("text(%q) = %q", in, out)
		}
	}
	in := `{"Job":{"ID":"web","CreateIndex":9007199254740993,"TaskGroups":[{"Tasks":[{"Env":{"A":"canary"},"Config":{"args":["canary"],"n":1},"Meta":{"m":"canary"},
		"Templates":[{"EmbeddedTmpl":"canary"}],"Artifacts":[{"GetterHeaders":{"h":"canary"}}]}]}],"Payload":"canary"},"SecretID":"canary","replication_token":"canary",
		"Tokens":["canary"],"Checks":[{"Args":["canary"],"Body":"canary"}],"MountOptions":{"MountFlags":["password=canary"]},"GetterSource":"git::ssh://git@host/x?sshkey=canary",
		"Events":[{"Payload":{"Name":"kept","Items":{"k":"canary"}}}],"text":"canary-token"}`
	out, ok := s.json([]byte(in))
	if !ok || strings.Contains(string(out), "canary") {
		t.Errorf("json() = %s", out)
	}
	for _, kept := range []string{`"ID": "web"`, "9007199254740993", `"Name": "kept"`, `"n": 1`} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("json() lost %s: %s", kept, out)
		}
	}
	if _, ok := s.json([]byte("no JSON")); ok {
		t.Error("text is JSON")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for want, args := range map[string][]string{
		"not a duration":           {"-duration=x"},
		"longer than 24h":          {"-duration=25h"},
		"at least 1s":              {"-interval=1ms"},
		"longer than -duration":    {"-duration=2s", "-interval=3s"},
		"-pprof-duration is longe": {"-duration=2s", "-interval=1s", "-pprof-duration=3s"},
		"exclude each other":       {"-log-file-export", "-log-lookback=1h"},
		"-max-nodes is negative":   {"-max-nodes=-1"},
		"environment of Consul":    {"-consul-http-addr=127.0.0.1:1", "-consul-ca-cert=nowhere.pem", "-consul-token=canary"},
	} {
		var errs strings.Builder
		if code := Commands()[0].Adapt(strings.NewReader(""), &strings.Builder{}, &errs).Run(args); code != 1 ||
			!strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "canary") {
			t.Errorf("%q: exit code %d, %q, want %q", args, code, errs.String(), want)
		}
	}
}

// A file and a bundle have a maximum size.
func TestLimits(t *testing.T) {
	d, err := newDir(t.TempDir(), "b", newScrubber(&api.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.write("large", make([]byte, maxFile+1)); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a large file: %v", err)
	}
	d.size = maxBundle
	if err := d.write("one", []byte("x")); err == nil || !strings.Contains(err.Error(), errFull.Error()) {
		t.Errorf("a full bundle: %v", err)
	}
	if err := d.write("../outside", nil); err == nil {
		t.Error("a file outside the bundle is written")
	}
}

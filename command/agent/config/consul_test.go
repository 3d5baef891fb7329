package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad"
	mode "github.com/open-nomad/open-nomad/nomad/consul"
)

// consulNames returns the names and addresses of the consul blocks.
func consulNames(s *Settings) (out []string) {
	for _, c := range s.Consul {
		out = append(out, c.Name+"="+c.Address)
	}
	return out
}

// TestConsul_Merge checks that blocks with the same name are merged, in one file and in several, and that flags set the
// default one.
func TestConsul_Merge(t *testing.T) {
	s, err := load(t, map[string]string{
		"a.hcl":  minimal + "consul { address = \"a:1\" }\nconsul { timeout = \"7s\" }\nconsul {\n name = \"west\"\n address = \"w:1\"\n}\n",
		"b.json": `{"consul": [{"name": "default", "auth": "u:p"}, {"name": "west", "token": "t"}]}`,
	}, "-consul-address", "flag:1", "-consul-ssl", "-consul-verify-ssl=false")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := consulNames(s), []string{"default=flag:1", "west=w:1"}; !slices.Equal(got, want) {
		t.Fatalf("blocks = %q, want %q", got, want)
	}
	if c := s.Consul[0]; c.Timeout != 7*time.Second || c.Auth != "u:p" || c.Token != "" || !c.SSL || c.VerifySSL {
		t.Errorf("default = %+v", c)
	}
	if c := s.Consul[1]; c.Timeout != 5*time.Second || c.Auth != "" || c.Token != "t" || c.SSL {
		t.Errorf("west = %+v", c)
	}
}

// TestConsul_Servers checks that a consul block makes the servers keep services of Consul for it, unless the operator has
// decided otherwise.
func TestConsul_Servers(t *testing.T) {
	const setting = "server {\n services {\n consul = \"nomad\"\n}\n}\n"
	for text, want := range map[string]mode.Mode{
		"": "", setting: mode.Native, "consul {}\n": mode.Consul, "consul {}\n" + setting: mode.Native,
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + text})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.consulServices(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestConsul_Flags checks that a flag alone makes the default block.
func TestConsul_Flags(t *testing.T) {
	s, err := Parse([]string{"-dev", "-consul-address", "x:1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := consulNames(s); !slices.Equal(got, []string{"default=x:1"}) {
		t.Errorf("blocks = %q", got)
	}
	sets, err := s.ConsulSettings()
	if err != nil || len(sets) != 1 || sets[0].Name != consul.DefaultCluster || !s.DetectsConsul() {
		t.Errorf("clusters = %+v, %v", sets, err)
	}
	if s, err = Parse([]string{"-dev"}); err != nil || len(s.Consul) > 0 {
		t.Errorf("without a flag: %q, %v", consulNames(s), err)
	}
}

// connect returns the agent of a block that is the only one.
func connect(c *Consul) (*consul.Agent, error) {
	s := Default()
	s.Consul = []*Consul{c}
	set, err := s.consulSettings(c)
	if err != nil {
		return nil, err
	}
	return consul.New(set)
}

// TestConsul_Requests checks the address, the token and the user of a request, from the block and from the environment.
func TestConsul_Requests(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = fmt.Sprint(r.Header.Get("X-Consul-Token"), " ", user, ":", password)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	const address = "CONSUL_HTTP_ADDR"
	for name, c := range map[string]struct {
		block Consul
		env   map[string]string
		want  string
	}{
		"block":               {Consul{Address: s.URL, Token: "a", Auth: "u:p"}, map[string]string{address: "other:1", "CONSUL_HTTP_TOKEN": "b"}, "a u:p"},
		"environment":         {Consul{}, map[string]string{address: s.URL, "CONSUL_HTTP_TOKEN": "b", "CONSUL_HTTP_AUTH": "x:y"}, "b x:y"},
		"token of a cluster":  {Consul{}, map[string]string{address: s.URL, "CONSUL_HTTP_TOKEN_default": "c", "CONSUL_HTTP_TOKEN": "b"}, "c :"},
		"other cluster":       {Consul{Name: "west"}, map[string]string{address: s.URL, "CONSUL_HTTP_TOKEN_default": "c"}, " :"},
		"token file":          {Consul{}, map[string]string{address: s.URL, "CONSUL_HTTP_TOKEN_FILE": file}, "of-file :"},
		"block or token file": {Consul{Token: "a"}, map[string]string{address: s.URL, "CONSUL_HTTP_TOKEN_FILE": file}, "a :"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, v := range c.env {
				t.Setenv(key, v)
			}
			if c.block.Name == "" {
				c.block.Name = consul.DefaultCluster
			}
			c.block.VerifySSL = true
			agent, err := connect(&c.block)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := agent.Client().Status().Leader(); err != nil && strings.Contains(err.Error(), "dial") {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("request = %q, want %q", got, c.want)
			}
		})
	}
}

// TestConsul_Address checks the forms of addresses.
func TestConsul_Address(t *testing.T) {
	for address, ok := range map[string]bool{"": true, "a:1": true, "https://a:1": true, "unix:///run/consul.sock": true,
		`{{ "127.0.0.1" }}:8500`: true, `{{ "127.0.0.1 127.0.0.2" }}`: false, `{{ "" }}`: false, "ftp://a": false} {
		c := Consul{Name: consul.DefaultCluster, Address: address, VerifySSL: true}
		agent, err := connect(&c)
		if (err == nil) != ok {
			t.Errorf("%q: error = %v", address, err)
		}
		if err == nil && agent.TLS() != strings.HasPrefix(address, "https") {
			t.Errorf("%q: TLS = %v", address, agent.TLS())
		}
	}
}

// TestConsul_CanonicalAddress checks the address that the library gets.
func TestConsul_CanonicalAddress(t *testing.T) {
	for address, want := range map[string]string{"": "", "localhost:8500": "localhost:8500", "[2001:DB8::0:1]:8500": "[2001:db8::1]:8500",
		"2001:DB8::1": "[2001:db8::1]", "https://[::0001]:8501": "https://[::1]:8501", "unix:///run/consul.sock": "unix:///run/consul.sock"} {
		if got, err := consulAddress(address); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", address, got, err, want)
		}
	}
}

// TestConsul_Keys checks that each key of the block has an effect on the settings of a connection, on a part of the
// agent, or is read by package agent.
func TestConsul_Keys(t *testing.T) {
	pair := testpki.New(t).Agent("localhost")
	values := map[string]string{"address": `"10.0.0.1:1"`, "grpc_address": `"10.0.0.1:2"`, "timeout": `"9s"`, "ca_file": strconv.Quote(pair.CA),
		"cert_file": strconv.Quote(pair.Cert) + "\nkey_file = " + strconv.Quote(pair.Key), "key_file": strconv.Quote(pair.Key) + "\ncert_file = " + strconv.Quote(pair.Cert),
		"grpc_ca_file": strconv.Quote(pair.CA), "service_identity": "{ aud = [\"a\"] }", "task_identity": "{ aud = [\"a\"] }", "tags": `["a"]`}
	// Package agent builds services and searches with these.
	agent := []string{"server_service_name", "server_http_check_name", "server_serf_check_name", "server_rpc_check_name",
		"server_failures_before_critical", "server_failures_before_warning", "client_service_name", "client_http_check_name",
		"client_failures_before_critical", "client_failures_before_warning", "tags", "auto_advertise", "checks_use_advertise",
		"server_auto_join", "client_auto_join"}
	effect := func(text string) any {
		s, err := load(t, map[string]string{"a.hcl": minimal + "consul {\n" + text + "\n}\n"})
		if err != nil {
			t.Fatal(err)
		}
		sets, err := s.ConsulSettings()
		if err != nil {
			t.Fatal(err)
		}
		for i := range sets {
			sets[i].HTTP.Transport, sets[i].HTTP.HttpClient = nil, nil
		}
		return []any{sets, configs(t, s)}
	}
	before := effect("")
	for _, f := range decode.Fields(reflect.ValueOf(Consul{})) {
		value := values[f.Key]
		switch {
		case value != "" || f.Key == "name":
		case f.Value.Kind() == reflect.Bool:
			value = strconv.FormatBool(f.Key != "verify_ssl")
		default:
			value = `"other"`
		}
		if f.Key == "name" || slices.Contains(agent, f.Key) {
			continue
		}
		if reflect.DeepEqual(effect(f.Key+" = "+value), before) {
			t.Errorf("%s: has no effect", f.Key)
		}
	}
}

// TestConsul_Refused checks that wrong values are refused with the file, the key and the reason.
func TestConsul_Refused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for text, want := range map[string]string{
		"name = \"a.b\"":                                                         `a.hcl:5: consul.name: invalid name "a.b"`,
		"timeout = \"0s\"":                                                       "a.hcl:5: consul.timeout: must be above 0",
		"address = \"ftp://a\"":                                                  `a.hcl:5: consul.address: unknown scheme "ftp"`,
		"address = \"http://u:passw0rd@a\"":                                      "consul.address: the address contains a user",
		"grpc_address = \"{{ 1 | nothing }}\"":                                   "a.hcl:5: consul.grpc_address: address template",
		"ca_file = \"" + missing + "\"":                                          "a.hcl:5: consul.ca_file: open " + missing,
		"cert_file = \"a.hcl\"":                                                  "a.hcl:5: consul.cert_file: ",
		"server_service_name = \"\"":                                             "a.hcl:5: consul.server_service_name: must not be empty while auto_advertise is true",
		"client_failures_before_warning = -1":                                    "a.hcl:5: consul.client_failures_before_warning: must not be negative",
		"service_identity {}":                                                    "consul.service_identity.aud: is required",
		"task_identity {\n ttl = \"1h\"\n}":                                      "consul.task_identity.aud: is required",
		"task_identity {\n aud = [\"\"]\n}":                                      "a.hcl:6: consul.task_identity.aud: an audience must not be empty",
		"task_identity {\n aud = [\"a\"]\n ttl = \"soon\"\n}":                    "a.hcl:7: consul.task_identity.ttl: \"soon\" is not a duration",
		"task_identity {\n aud = [\"a\"]\n ttl = \"-1h\"\n}":                     "a.hcl:7: consul.task_identity.ttl: \"-1h\" is not a duration",
		"task_identity {\n aud = [\"a\"]\n filepath = \"x\"\n}":                  "a.hcl:7: consul.task_identity.filepath: needs file = true",
		"task_identity {\n aud = [\"a\"]\n file = true\n filepath = \"../x\"\n}": "a.hcl:8: consul.task_identity.filepath: \"../x\" is outside the task directory",
		"service_identity {\n aud = [\"a\"]\n extra_claims {\n a = \"b\"\n}\n}":  "consul.service_identity.extra_claims: identities for Consul have the extra claims of their namespace",
	} {
		file := minimal + "consul {\n" + text + "\n}\n"
		_, err := load(t, map[string]string{"a.hcl": file})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error\n%v, want\n%s", text, err, want)
		}
		if strings.Contains(text, missing) || strings.Contains(text, "{{") {
			continue // another machine can have it
		}
		path := filepath.Join(t.TempDir(), "a.hcl")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Validate([]string{path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Validate() = %v, want %s", text, err, want)
		}
	}
}

// TestConsul_Identities checks the identities of a server, from files and of -dev-consul.
func TestConsul_Identities(t *testing.T) {
	s, err := load(t, map[string]string{"a.hcl": minimal + `consul {
 service_identity {
  aud = ["consul.io"]
  ttl = "2h"
 }
}
consul {
 task_identity {
  aud      = ["consul.io", "x"]
  env      = true
  file     = true
  filepath = "local/token"
 }
}
`})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.ServerConfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if want := (&nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: 2 * time.Hour}); !reflect.DeepEqual(cfg.Consul.ServiceIdentity, want) {
		t.Errorf("service identity = %+v", cfg.Consul.ServiceIdentity)
	}
	want := &nomad.WorkloadIdentity{Audience: []string{"consul.io", "x"}, Env: true, File: true, Filepath: "local/token"}
	if !reflect.DeepEqual(cfg.Consul.TaskIdentity, want) {
		t.Errorf("task identity = %+v", cfg.Consul.TaskIdentity)
	}
	if s, err = Parse([]string{"-dev-consul"}); err != nil {
		t.Fatal(err)
	}
	if cfg, err = s.ServerConfig(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	want = &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
	if !reflect.DeepEqual(cfg.Consul, mode.Config{Setting: mode.Consul, ServiceIdentity: want, TaskIdentity: want}) || !s.Dev {
		t.Errorf("-dev-consul: %+v", cfg.Consul)
	}
}

// TestConsul_DevConnect checks that -dev-connect needs the program consul, and gives the node the machine's network.
func TestConsul_DevConnect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Parse([]string{"-dev-connect"}); err == nil || !strings.Contains(err.Error(), "the program consul must be in PATH") {
		t.Errorf("without the program: %v", err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("PATH"), "consul"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Parse([]string{"-dev-connect"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.ClientConfig(t.TempDir(), "127.0.0.1:4646")
	if err != nil || cfg.Fingerprint.Loopback || !slices.Equal(s.HTTPHosts(), []string{"127.0.0.1"}) {
		t.Errorf("loopback network %v, API on %q, %v", cfg.Fingerprint.Loopback, s.HTTPHosts(), err)
	}
}

// TestConsul_Changed checks that a reload reports the changed keys of a block, and the block if clusters are added.
func TestConsul_Changed(t *testing.T) {
	parse := func(text string) *Settings {
		s, err := load(t, map[string]string{"a.hcl": minimal + text})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		before, after string
		want          []string
	}{
		{"consul {}\n", "consul {\n token = \"x\"\n address = \"a:1\"\n}\n", []string{"consul.address", "consul.token"}},
		{"consul {}\n", "consul {\n task_identity {\n aud = [\"a\"]\n}\n}\n", []string{"consul.task_identity.aud"}},
		{"consul {}\n", "consul {}\nconsul {\n name = \"west\"\n}\n", []string{"consul"}},
		{"consul {}\n", "", []string{"consul"}},
	} {
		if got := Changed(parse(c.before), parse(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%q to %q: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

// TestConsul_Precedence checks that files win over the environment.
func TestConsul_Precedence(t *testing.T) {
	t.Setenv("CONSUL_HTTP_SSL", "true")
	t.Setenv("CONSUL_HTTP_SSL_VERIFY", "false")
	t.Setenv("CONSUL_NAMESPACE", "of-environment")
	t.Setenv("CONSUL_HTTP_ADDR", "environment:1")
	for text, want := range map[string]string{
		"": "environment:1 https skip=true of-environment",
		"ssl = false\nverify_ssl = true\nnamespace = \"mine\"\naddress = \"file:1\"": "file:1 http skip=false mine",
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + "consul {\n" + text + "\n}\n"})
		if err != nil {
			t.Fatal(err)
		}
		sets, err := s.ConsulSettings()
		if err != nil {
			t.Fatal(err)
		}
		h := sets[0].HTTP
		if got := fmt.Sprintf("%s %s skip=%v %s", h.Address, h.Scheme, h.TLSConfig.InsecureSkipVerify, h.Namespace); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestConsul_Secrets checks that the API, the lists of changes and differences, and errors do not have the secrets.
func TestConsul_Secrets(t *testing.T) {
	const text = "consul {\n token = \"s3cret\"\n auth = \"user:s3cret\"\n tags = [\"x\"]\n ca_file = \"/nowhere\"\n name = \"a.b\"\n}\n"
	_, err := load(t, map[string]string{"a.hcl": minimal + text})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error = %v", err)
	}
	s := Default()
	s.Consul = []*Consul{{Name: "default", Token: "s3cret", Auth: "user:s3cret"}}
	shown, err := json.Marshal(s.Redacted())
	if err != nil || strings.Contains(string(shown), "s3cret") || strings.Count(string(shown), "redacted") != 2 {
		t.Errorf("shown: %s, %v", shown, err)
	}
	if got := fmt.Sprint(Changed(Default(), s)); got != "[consul]" {
		t.Errorf("Changed() = %s", got)
	}
}

// TestConsul_Node checks what a node with Consul has, and that a denied fingerprinter turns it off.
func TestConsul_Node(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		detects bool
		image   string
	}{
		"none":   {"", false, ""},
		"Consul": {"consul {}\n", true, "docker.io/envoyproxy/envoy:v${NOMAD_envoy_version}"},
		"meta":   {"consul {}\nclient {\n meta { \"connect.sidecar_image\" = \"mine\" }\n}\n", true, "mine"},
		"denied": {"consul {}\nclient {\n options = { \"fingerprint.denylist\" = \"consul\" }\n}\n", false, ""},
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + c.text})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cfg, err := s.ClientConfig(t.TempDir(), "127.0.0.1:4646")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.DetectsConsul() != c.detects || cfg.Meta["connect.sidecar_image"] != c.image {
			t.Errorf("%s: detects Consul: %v, image %q", name, s.DetectsConsul(), cfg.Meta["connect.sidecar_image"])
		}
	}
}

package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/consul"
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
	cfg, err := s.ClientConfig(t.TempDir(), "127.0.0.1:4646")
	if err != nil || len(cfg.Consul.Agents) != 1 || cfg.Consul.Agents[0].Name() != consul.DefaultCluster {
		t.Errorf("clusters = %+v, %v", cfg.Consul.Agents, err)
	}
	if s, err = Parse([]string{"-dev"}); err != nil || len(s.Consul) > 0 {
		t.Errorf("without a flag: %q, %v", consulNames(s), err)
	}
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
			agent, err := c.block.agent()
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
		agent, err := c.agent()
		if (err == nil) != ok {
			t.Errorf("%q: error = %v", address, err)
		}
		if err == nil && agent.TLS() != strings.HasPrefix(address, "https") {
			t.Errorf("%q: TLS = %v", address, agent.TLS())
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
		text     string
		clusters int
		image    string
	}{
		"none":   {"", 0, ""},
		"Consul": {"consul {}\n", 1, "docker.io/envoyproxy/envoy:v${NOMAD_envoy_version}"},
		"meta":   {"consul {}\nclient {\n meta { \"connect.sidecar_image\" = \"mine\" }\n}\n", 1, "mine"},
		"denied": {"consul {}\nclient {\n options = { \"fingerprint.denylist\" = \"consul\" }\n}\n", 0, ""},
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + c.text})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cfg, err := s.ClientConfig(t.TempDir(), "127.0.0.1:4646")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(cfg.Consul.Agents) != c.clusters || cfg.Meta["connect.sidecar_image"] != c.image {
			t.Errorf("%s: %d clusters, image %q", name, len(cfg.Consul.Agents), cfg.Meta["connect.sidecar_image"])
		}
	}
}

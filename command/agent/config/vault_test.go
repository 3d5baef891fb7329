package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	mode "github.com/open-nomad/open-nomad/nomad/vault"
)

// TestVault_Settings checks which clusters a client detects, for blocks of several files and flags.
func TestVault_Settings(t *testing.T) {
	const west = "vault {\n name = \"west\"\n enabled = true\n address = \"https://w:1\"\n}\n"
	for name, c := range map[string]struct {
		files map[string]string
		flags []string
		want  string
	}{
		"none":     {map[string]string{"a.hcl": minimal}, nil, ""},
		"address":  {map[string]string{"a.hcl": minimal + "vault { address = \"https://a:1\" }\n"}, nil, ""},
		"disabled": {map[string]string{"a.hcl": minimal + west + "vault {\n enabled = false\n address = \"no address\"\n ca_file = \"/nowhere\"\n}\n"}, nil, ""},
		"enabled":  {map[string]string{"a.hcl": minimal + "vault { enabled = true }\n"}, nil, "default=https://vault.service.consul:8200"},
		"IPv6": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n address = \"http://[2001:0db8::0001]:8200/x\"\n}\n"}, nil,
			"default=http://[2001:db8::1]:8200/x"},
		"merged": {map[string]string{"a.hcl": minimal + "vault { enabled = true }\n" + west, "b.json": `{"vault": [{"address": "https://b:1"},
			{"name": "west", "tls_server_name": "x"}]}`}, []string{"-vault-tls-skip-verify"}, "default=https://b:1 skip,west=https://w:1 x"},
		"flags": {map[string]string{"a.hcl": minimal}, []string{"-vault-enabled", "-vault-address", "http://f:1"}, "default=http://f:1"},
	} {
		s, err := load(t, c.files, c.flags...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, v := range s.VaultSettings() {
			text := v.Name + "=" + v.Address
			if v.TLS.SkipVerify {
				text += " skip"
			}
			got = append(got, strings.TrimSpace(text+" "+v.TLS.ServerName))
		}
		if text := strings.Join(got, ","); text != c.want || s.DetectsVault() != (c.want != "") {
			t.Errorf("%s: %q, detected %t, want %q", name, text, s.DetectsVault(), c.want)
		}
	}
}

// TestVault_Denied checks that the lists of fingerprinters disable the detection.
func TestVault_Denied(t *testing.T) {
	for option, want := range map[string]bool{"fingerprint.denylist": false, "fingerprint.allowlist": true} {
		s, err := load(t, map[string]string{"a.hcl": minimal + "vault { enabled = true }\nclient {\n enabled = true\n options = { \"" + option + "\" = \"vault\" }\n}\n"})
		if err != nil {
			t.Fatal(err)
		}
		if s.DetectsVault() != want {
			t.Errorf("%s: detected %t, want %t", option, s.DetectsVault(), want)
		}
	}
}

// TestVault_OtherMachine checks that files of another machine are warnings.
func TestVault_OtherMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.hcl")
	text := minimal + "vault {\n enabled = true\n ca_file = \"/nowhere/ca.pem\"\n cert_file = \"/nowhere/c.pem\"\n key_file = \"/nowhere/k.pem\"\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	warnings, err := Validate([]string{path})
	if text := fmt.Sprint(warnings); err != nil || len(warnings) != 3 || !strings.Contains(text, "vault.ca_file") {
		t.Errorf("warnings %s, error %v", text, err)
	}
}

// TestVault_Files checks that a file that is not a certificate is an error that names the cluster.
func TestVault_Files(t *testing.T) {
	_, err := load(t, map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n cert_file = \"/dev/null\"\n key_file = \"/dev/null\"\n}\n"})
	if err == nil || !strings.Contains(err.Error(), `cluster "`+vault.DefaultCluster+`": TLS to Vault`) {
		t.Errorf("error = %v", err)
	}
}

// TestVault_Redacted checks that the API does not show the token of a block.
func TestVault_Redacted(t *testing.T) {
	c := Config{Vault: []*Vault{{Name: "default", Token: "s3cret", Address: "https://a:1"}}}
	if text := fmt.Sprint(c.Redacted()); strings.Contains(text, "s3cret") || !strings.Contains(text, "https://a:1") {
		t.Errorf("shown: %s", text)
	}
}

// TestVault_Tasks checks what servers and clients get for tasks: from merged blocks, the environment, flags and -dev-vault.
func TestVault_Tasks(t *testing.T) {
	t.Setenv("VAULT_NAMESPACE", "of-env")
	const west = "vault {\n name = \"west\"\n enabled = true\n}\n"
	claims := map[string]string{"unused": "${job.id}"}
	for name, c := range map[string]struct {
		files map[string]string
		flags []string
		want  []vault.Settings // without the address
		ids   mode.Clusters
	}{
		"defaults": {map[string]string{"a.hcl": minimal + "vault { enabled = true }\n"}, nil,
			[]vault.Settings{{Name: "default", Namespace: "of-env", AuthPath: "jwt-nomad"}}, mode.Clusters{"default": {Enabled: true}}},
		"disabled": {map[string]string{"a.hcl": minimal + "vault {\n default_identity { env = true }\n}\n"}, nil, nil, mode.Clusters{"default": {}}},
		"all": {map[string]string{"a.hcl": minimal + `vault {
 enabled = true
 create_from_role = "r"
 namespace = "n"
 jwt_auth_backend_path = "/a//b/"
 default_identity {
  aud = ["x"]
  env = true
  extra_claims { unused = "${job.id}" }
 }
}
` + west}, nil, []vault.Settings{{Name: "default", Namespace: "n", AuthPath: "a/b", Role: "r"}, {Name: "west", AuthPath: "jwt-nomad"}},
			mode.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"x"}, Env: true}, ExtraClaims: claims},
				"west": {Enabled: true}}},
		"merged": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n default_identity {\n aud = [\"a\", \"b\"]\n ttl = \"1h\"\n env = true\n" +
			" extra_claims { unused = \"old\" }\n}\n}\n" + "vault {\n default_identity { aud = [\"b\", \"c\"] }\n}\n",
			"b.json": `{"vault": {"default_identity": {"aud": ["d"], "ttl": "2h", "env": false, "file": true, "filepath": "local/x", "extra_claims": {"unused": "${job.id}"}}}}`},
			[]string{"-vault-create-from-role", "f", "-vault-namespace", "fn"}, []vault.Settings{{Name: "default", Namespace: "fn", AuthPath: "jwt-nomad", Role: "f"}},
			mode.Clusters{"default": {Enabled: true, ExtraClaims: claims, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"a", "b", "c", "d"},
				TTL: 2 * time.Hour, File: true, Filepath: "local/x"}}}},
		"development": {nil, []string{"-dev-vault"}, []vault.Settings{{Name: "default", Namespace: "of-env", AuthPath: "jwt-nomad"}},
			mode.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"vault.io"}, TTL: time.Hour}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, c.files, c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			got := s.VaultSettings()
			for i := range got {
				if name == "development" && got[i].Address != "http://localhost:8200" {
					t.Errorf("address %q", got[i].Address)
				}
				got[i].Address = ""
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("settings = %+v, want %+v", got, c.want)
			}
			cfg, err := s.ServerConfig(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(cfg.Vault, c.ids) {
				text, _ := json.Marshal(cfg.Vault)
				t.Errorf("clusters = %s", text)
			}
		})
	}
}

// TestVault_UnknownKeys checks that keys of earlier versions of Nomad are accepted and reported.
func TestVault_UnknownKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	text := minimal + "vault {\n enabled = true\n allow_unauthenticated = true\n task_token_ttl = \"1h\"\n token = \"s3cret\"\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Parse([]string{"-config", file})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.IgnoredVault(); !slices.Equal(got, []string{"allow_unauthenticated", "task_token_ttl"}) {
		t.Errorf("ignored keys %q", got)
	}
	differences, err := Differences([]string{file})
	if err != nil || len(differences) != 2 || differences[0].Key != "vault.allow_unauthenticated" || differences[0].Refused {
		t.Errorf("differences %+v, error %v", differences, err)
	}
}

// TestVault_Keyring checks that transit keyrings without a token have that of the vault block, and no other provider does.
func TestVault_Keyring(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "of-env")
	s, err := load(t, map[string]string{"a.hcl": minimal + `
vault { token = "of-vault" }
keyring "transit" {
 key_name = "a"
 active   = true
}
keyring "transit" {
 name     = "own"
 key_name = "a"
 token    = "own"
}
keyring "aead" {}
`})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range s.keyrings() {
		got[c.ID()] = c.Keys["token"]
	}
	if want := map[string]string{"transit": "of-vault", "transit.own": "own", "aead": ""}; !maps.Equal(got, want) {
		t.Errorf("tokens %q, want %q", got, want)
	}
	if text := fmt.Sprint(s.Redacted()); strings.Contains(text, "of-vault") {
		t.Errorf("shown: %s", text)
	}
}

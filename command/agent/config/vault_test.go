package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/vault"
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

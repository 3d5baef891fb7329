package vaultenv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/vaultenv"
)

// TestNew checks that flags override the environment, and that no text of a connection has the token.
func TestNew(t *testing.T) {
	t.Setenv(api.EnvVaultAddress, "https://a:8200")
	t.Setenv(api.EnvVaultToken, "canary-of-the-environment")
	t.Setenv(api.EnvVaultNamespace, "/team/")
	for _, c := range []struct {
		flags                vaultenv.Flags
		address, token, name string
	}{
		{vaultenv.Flags{}, "https://a:8200", "canary-of-the-environment", "team"},
		{vaultenv.Flags{Address: "http://b", Token: "canary", Namespace: "x"}, "http://b", "canary", "x"},
	} {
		got, err := vaultenv.New(c.flags)
		if err != nil {
			t.Fatal(err)
		}
		client := got.Client()
		if got.Address() != c.address || client.Token() != c.token || client.Namespace() != c.name || got.Namespace() != c.name || !got.Authorized() {
			t.Errorf("New(%v) = %s, namespace %q", c.flags.Address, got, got.Namespace())
		}
		if text := fmt.Sprintf("%v %+v %#v %s %q %v", got, got, got, got, *got, []any{got, got.LogValue()}); strings.Contains(text, "canary") {
			t.Errorf("the connection prints its token: %s", text)
		}
		if client := got.ClientIn("y"); client.Token() != c.token || client.Namespace() != "y" {
			t.Errorf("ClientIn() has the namespace %q", client.Namespace())
		}
		if client := got.Anonymous().Client(); client.Token() != "" || client.Namespace() != "" {
			t.Errorf("Anonymous() has a token, or the namespace %q", client.Namespace())
		}
	}
}

// TestNew_Refused checks the variables that are not supported or malformed.
func TestNew_Refused(t *testing.T) {
	for name, want := range map[string]string{
		api.EnvVaultCACertBytes: "unset it and write the certificate to a file", api.EnvVaultAgentAddr: "set VAULT_ADDR",
		api.EnvVaultProxyAddr: "set HTTPS_PROXY", api.EnvHTTPProxy: "set HTTPS_PROXY", api.EnvVaultSkipVerify: "is not true or false",
		api.EnvVaultAddress: "must begin with http", api.EnvVaultCACert: "no such file",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "canary")
			if _, err := vaultenv.New(vaultenv.Flags{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
		})
	}
}

package testvault_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul-template/dependency"

	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestConsulTemplate checks that the queries of consul-template get what they expect.
func TestConsulTemplate(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	root := client(t, v, v.Root())
	for i := range 2 {
		write(t, root, "secret/data/default/web/db", map[string]any{"data": map[string]any{"k": fmt.Sprint("v", i)}})
	}
	write(t, root, "secret/data/default/web/old", map[string]any{"data": map[string]any{"k": "v"}})
	_, err := root.Logical().Delete("secret/data/default/web/old")
	must(t, err)
	write(t, root, "kv/app", map[string]any{"k": "one"})
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: time.Minute, Renewable: true})
	idp := workloads(t, v, nil)
	s, err := login(t, v, idp.Token(claims(nil)), "")
	must(t, err)
	dependency.SetVaultLeaseRenewalThreshold(0.9) // the default of its command
	clients := dependency.NewClientSet()
	t.Cleanup(clients.Stop)
	must(t, clients.CreateVaultClient(&dependency.CreateVaultClientInput{Address: v.Addr(), Token: s.Auth.ClientToken}))
	cert := filepath.Join(t.TempDir(), "cert.pem")
	for _, c := range []struct {
		what string
		make func() (dependency.Dependency, error)
		want string // "" for an error
	}{
		{"kv2", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("secret/default/web/db") }, "k:v1"},
		{"kv2 data", func() (dependency.Dependency, error) {
			return dependency.NewVaultReadQuery("secret/data/default/web/db")
		}, "k:v1"},
		{"kv2 version", func() (dependency.Dependency, error) {
			return dependency.NewVaultReadQuery("secret/default/web/db?version=1")
		}, "k:v0"},
		{"deleted", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("secret/default/web/old") }, ""},
		{"absent", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("secret/default/web/no") }, ""},
		{"another job", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("secret/default/api/db") }, ""},
		{"kv1", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("kv/app") }, "k:one"},
		{"write", func() (dependency.Dependency, error) {
			return dependency.NewVaultWriteQuery("kv/app", map[string]any{"k": "two"})
		}, "<nil>"},
		{"lease", func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery("database/creds/app") }, "username:"},
		{"list", func() (dependency.Dependency, error) { return dependency.NewVaultListQuery("secret/default/web") }, "[db old]"},
		{"empty list", func() (dependency.Dependency, error) { return dependency.NewVaultListQuery("secret/none") }, "[]"},
		{"certificate", func() (dependency.Dependency, error) {
			return dependency.NewVaultPKIQuery("pki/issue/web", cert, map[string]any{"common_name": "web.test"})
		}, "-----BEGIN CERTIFICATE-----"},
	} {
		d, err := c.make()
		must(t, err)
		got, _, err := d.Fetch(clients, &dependency.QueryOptions{})
		if s, ok := got.(*dependency.Secret); ok && s != nil {
			got = s.Data
		}
		text := fmt.Sprintf("%v", got)
		if (err == nil) != (c.want != "") || err == nil && !strings.Contains(text, c.want) {
			t.Errorf("%s: %.200s, %v; want %q", c.what, text, err, c.want)
		}
		d.Stop()
	}
	v.Expect("permission denied") // of another job
	if got := len(v.Leases()); got != 1 {
		t.Errorf("%d leases", got)
	}
}

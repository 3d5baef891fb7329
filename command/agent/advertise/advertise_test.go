package advertise

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// agent returns an agent with both roles and the defaults of the block.
func agent(t *testing.T, change func(*Config)) Config {
	t.Helper()
	s, err := config.Parse([]string{"-dev", "-consul-address", "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Block: s.DefaultConsul(), Server: true, Client: true, HTTP: Address{"0.0.0.0:4646", "10.0.0.1:4646"},
		RPC: Address{"0.0.0.0:4647", "10.0.0.1:4647"}, Serf: Address{"0.0.0.0:4648", "[2001:db8::1]:4648"}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	return c
}

// described returns a line per service.
func described(t *testing.T, c Config) (out []string) {
	t.Helper()
	list, err := Services(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		r := s.Registration
		role, _, _ := strings.Cut(strings.TrimPrefix(r.ID, "_nomad-"), "-")
		line := fmt.Sprintf("%s %s %v %s %d %v", role, r.Name, r.Tags, r.Address, r.Port, r.Meta)
		for _, k := range r.Checks {
			line += fmt.Sprintf(" | %s %s%s %s/%s critical=%d warning=%d skip=%v", k.Name, k.HTTP, k.TCP, k.Interval, k.Timeout,
				k.FailuresBeforeCritical, k.FailuresBeforeWarning, k.TLSSkipVerify)
		}
		out = append(out, line)
	}
	return out
}

// TestServices checks the services of an agent by its configuration.
func TestServices(t *testing.T) {
	const meta = " map[external-source:nomad]"
	rpc := "server nomad [rpc] 10.0.0.1 4647" + meta + " | Nomad Server RPC Check 0.0.0.0:4647 10s/3s critical=0 warning=0 skip=false"
	serf := "server nomad [serf] 2001:db8::1 4648" + meta + " | Nomad Server Serf Check 0.0.0.0:4648 10s/3s critical=0 warning=0 skip=false"
	http := func(role, name, check, target string) string {
		return fmt.Sprintf("%s %s [http] 10.0.0.1 4646%s | %s %s/v1/agent/health?type=%s 10s/5s critical=0 warning=0 skip=%v",
			role, name, meta, check, target, role, strings.HasPrefix(target, "https"))
	}
	servers := http("server", "nomad", "Nomad Server HTTP Check", "http://0.0.0.0:4646")
	clients := http("client", "nomad-client", "Nomad Client HTTP Check", "http://0.0.0.0:4646")
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"both":              {nil, []string{servers, rpc, serf, clients}},
		"server":            {func(c *Config) { c.Client = false }, []string{servers, rpc, serf}},
		"client":            {func(c *Config) { c.Server = false }, []string{clients}},
		"without gossip":    {func(c *Config) { c.Client, c.Serf = false, Address{} }, []string{servers, rpc}},
		"no auto_advertise": {func(c *Config) { c.Block.AutoAdvertise = false }, nil},
		"advertise": {func(c *Config) { c.Server, c.Block.ChecksUseAdvertise = false, true },
			[]string{http("client", "nomad-client", "Nomad Client HTTP Check", "http://10.0.0.1:4646")}},
		"TLS": {func(c *Config) { c.Server, c.HTTPS = false, true },
			[]string{http("client", "nomad-client", "Nomad Client HTTP Check", "https://0.0.0.0:4646")}},
		"client certificates": {func(c *Config) { c.Server, c.HTTPS, c.ClientCerts = false, true, true },
			[]string{"client nomad-client [http] 10.0.0.1 4646" + meta}},
		"names": {func(c *Config) {
			b := c.Block
			b.ServerServiceName, b.ServerHTTPCheckName, b.ServerRPCCheckName, b.ServerSerfCheckName = "s", "h", "r", "g"
			b.ClientServiceName, b.ClientHTTPCheckName = "c", "k"
			b.ServerFailuresBeforeCritical, b.ServerFailuresBeforeWarning = 1, 2
			b.ClientFailuresBeforeCritical, b.ClientFailuresBeforeWarning = 3, 4
			b.Tags = []string{"edge"}
		}, []string{
			"server s [http edge] 10.0.0.1 4646" + meta + " | h http://0.0.0.0:4646/v1/agent/health?type=server 10s/5s critical=1 warning=2 skip=false",
			"server s [rpc edge] 10.0.0.1 4647" + meta + " | r 0.0.0.0:4647 10s/3s critical=0 warning=0 skip=false",
			"server s [serf edge] 2001:db8::1 4648" + meta + " | g 0.0.0.0:4648 10s/3s critical=0 warning=0 skip=false",
			"client c [http edge] 10.0.0.1 4646" + meta + " | k http://0.0.0.0:4646/v1/agent/health?type=client 10s/5s critical=3 warning=4 skip=false",
		}},
	} {
		if got := described(t, agent(t, c.change)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestServices_IDs checks that IDs have the form that others expect, are distinct, are the same after a change of a name,
// and differ at another address.
func TestServices_IDs(t *testing.T) {
	ids := func(change func(*Config)) (out []string) {
		list, err := Services(agent(t, change))
		if err != nil {
			t.Fatal(err)
		}
		form := pattern.Lazy(`^_nomad-(server|client)-[a-z2-7]{52}$`)
		for _, s := range list {
			if out = append(out, s.Registration.ID); !form().MatchString(s.Registration.ID) {
				t.Errorf("ID %q", s.Registration.ID)
			}
		}
		return out
	}
	before := ids(nil)
	if distinct := slices.Compact(slices.Sorted(slices.Values(before))); len(distinct) != 4 {
		t.Errorf("distinct IDs: %q", distinct)
	}
	if got := ids(func(c *Config) { c.Block.ServerServiceName, c.Block.Tags = "other", []string{"x"} }); !slices.Equal(got, before) {
		t.Errorf("IDs of other names: %q, want %q", got, before)
	}
	if got := ids(func(c *Config) { c.HTTP.Advertise = "10.0.0.2:4646" }); got[0] == before[0] || got[1] != before[1] || got[3] == before[3] {
		t.Errorf("IDs at another address: %q, before %q", got, before)
	}
}

// TestServices_Warning checks the warning of an API that demands client certificates.
func TestServices_Warning(t *testing.T) {
	var out bytes.Buffer
	c := agent(t, func(c *Config) { c.HTTPS, c.ClientCerts, c.Log = true, true, slog.New(slog.NewTextHandler(&out, nil)) })
	if _, err := Services(c); err != nil || !strings.Contains(out.String(), "tls.verify_https_client") {
		t.Errorf("log: %s, %v", &out, err)
	}
	c.RPC.Advertise = "nowhere"
	if _, err := Services(c); err == nil || !strings.Contains(err.Error(), "advertised address of rpc") {
		t.Errorf("wrong address: %v", err)
	}
}

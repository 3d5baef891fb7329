package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// An agent without a reachable Vault starts and reports this in its log and its API, without the
// Vault token. It continues when Vault is reachable.
func TestKeyManagementOfAnAgent(t *testing.T) {
	v := testvault.StartTransit(t)
	v.Set(testvault.Echo)
	file := write(t, free+fmt.Sprintf(`
		bind_addr = "127.0.0.1"
		data_dir = %q
		server {
			enabled = true
			bootstrap_expect = 1
		}
		keyring "transit" {
			active = true
			name = "main"
			address = %q
			token = %q
			key_name = "root"
		}
	`, clienttest.Dir(t), v.Addr(), testvault.Token))
	out := &testbuffer.Buffer{}
	a, err := build(t, out, "-config", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	testpace.Until(t, "the log names Vault", func() bool {
		return strings.Contains(out.String(), "nothing can be signed") && strings.Contains(out.String(), "transit.main")
	})
	var self map[string]any
	testpace.Until(t, "the agent answers", func() bool { return get(a, "/v1/agent/self", &self) == nil })
	shown, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown)+out.String(), testvault.Token) {
		t.Error("the Vault token is shown")
	}
	for _, want := range []string{`"Provider":"transit"`, `"key_name":"root"`, `"token":"\u003credacted\u003e"`} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("agent self shows no %s: %s", want, shown)
		}
	}
	v.Set(testvault.None)
	testpace.Until(t, "the key is made", func() bool {
		var keys []struct{ WrappedBy []string }
		return get(a, "/v1/operator/keyring/keys", &keys) == nil && len(keys) == 1 && fmt.Sprint(keys[0].WrappedBy) == "[transit.main]"
	})
	if strings.Contains(out.String(), testvault.Token) {
		t.Error("the log contains the Vault token")
	}
}

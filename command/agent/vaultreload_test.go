package agent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// TestReloadVault_Errors checks that the wrong settings of a cluster do not prevent those of the others, and that the error
// names each cluster with wrong settings.
func TestReloadVault_Errors(t *testing.T) {
	settings := func(ca, port string) *config.Settings {
		set := &config.Settings{}
		for _, name := range []string{"default", "east", "west"} {
			v := &config.Vault{Name: name, Enabled: true, Address: "http://127.0.0.1:" + port}
			if name != "west" {
				v.CAFile = ca
			}
			set.Vault = append(set.Vault, v)
		}
		return set
	}
	a := &Agent{set: settings("", "1"), log: slog.New(slog.DiscardHandler)}
	if err := a.openVault(); err != nil {
		t.Fatal(err)
	}
	err := a.reloadVault(settings("/nowhere", "2"))
	if err == nil || !strings.Contains(err.Error(), `vault "default": `) || !strings.Contains(err.Error(), `vault "east": `) ||
		strings.Contains(err.Error(), "west") {
		t.Errorf("reloadVault() = %v", err)
	}
	for i, want := range []string{"http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:2"} {
		if got := a.vault[i].Settings().Address; got != want {
			t.Errorf("cluster %s has address %s, want %s", a.vault[i].Name(), got, want)
		}
	}
}

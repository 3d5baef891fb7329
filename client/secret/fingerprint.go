package secret

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
)

// Fingerprinter is the name of the fingerprinter in client options.
const Fingerprinter = "secrets_plugins"

const (
	builtInVersion = "1.0.0"
	maxPlugins     = 64
	// fingerprintTime limits one call. A plugin that needs longer for its version is not usable.
	fingerprintTime = 60 * time.Second
)

var (
	pluginName = pattern.Lazy(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,127}$`)
	version    = pattern.Lazy(`^v?[0-9]{1,9}(\.[0-9]{1,9}){0,2}([-+.][0-9A-Za-z.+-]{1,64})?$`)
)

// BuiltIn returns the attributes of the built-in providers.
func BuiltIn() map[string]string {
	return map[string]string{nomad.SecretsAttribute(nomad.SecretProviderNomad): builtInVersion,
		nomad.SecretsAttribute(nomad.SecretProviderVault): builtInVersion}
}

// Fingerprint returns the attributes of all providers. Files that are not usable plugins are logged and left out.
func (p *Plugins) Fingerprint(ctx context.Context) map[string]string {
	out := BuiltIn()
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := p.list()
	slices.Sort(names)
	if len(names) > maxPlugins {
		p.log.Warn("the directory of secrets plugins has too many files", "max", maxPlugins)
		names = names[:maxPlugins]
	}
	for _, name := range names {
		if !pluginName().MatchString(name) || !(&nomad.Secret{Provider: name}).Plugin() {
			p.log.Warn("a file in the directory of secrets plugins is not used: its name is not valid, or that of a built-in provider", "file", name)
			continue
		}
		wg.Go(func() {
			v, ok := p.version(ctx, name)
			if !ok {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[nomad.SecretsAttribute(name)] = v
		})
	}
	wg.Wait()
	return out
}

// version calls a plugin for its version. It reports false if the plugin is not usable.
func (p *Plugins) version(ctx context.Context, name string) (string, bool) {
	select {
	case p.fingerprints <- struct{}{}:
		defer func() { <-p.fingerprints }()
	case <-ctx.Done():
		return "", false
	}
	out, err := p.call(ctx, call{plugin: name, args: []string{"fingerprint"}, env: map[string]string{"CPI_OPERATION": "fingerprint"},
		limit: fingerprintTime})
	if err != nil {
		p.log.Warn("secrets plugin is not usable", "plugin", name, "err", err)
		return "", false
	}
	var answer struct {
		Type    string `json:"type"`
		Version string `json:"version"`
	}
	if json.Unmarshal(out, &answer) != nil || answer.Type != "secrets" || !version().MatchString(answer.Version) {
		p.log.Warn(`secrets plugin is not usable: it does not print {"type": "secrets", "version": "1.2.3"} for fingerprint`, "plugin", name)
		return "", false
	}
	return answer.Version, true
}

package vault

import (
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/vault/api"
)

// environment is held while the variables of Vault are removed from the environment.
var environment sync.Mutex

// variables begins the names of the variables that the library reads.
const variables = "VAULT_"

// newAPIClient is api.NewClient for an environment with malformed variables too. The library fails because of them, although
// the client has settings of its own. It has no option to ignore the environment, so they are removed during the call. Only
// this case changes the environment of the process. It is restored at once.
func newAPIClient(cfg *api.Config) (*api.Client, error) {
	if client, err := api.NewClient(cfg); err == nil {
		return client, nil
	}
	environment.Lock()
	defer environment.Unlock()
	for _, line := range os.Environ() {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, variables) {
			if err := os.Unsetenv(name); err != nil {
				return nil, err
			}
			defer os.Setenv(name, value)
		}
	}
	return api.NewClient(cfg)
}

// unwrapped asks Vault for answers that are not wrapped, whatever the value of VAULT_WRAP_TTL.
func unwrapped(_, _ string) string { return "" }

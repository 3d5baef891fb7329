package operator

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// gossipKeySize is the size of new keys in bytes: AES-256.
const gossipKeySize = 32

// gossipCommands make and rotate the keys that encrypt gossip.
func gossipCommands() []term.Command {
	return []term.Command{
		{
			Name: "operator gossip keyring generate", Local: true, Short: "Make a key that encrypts gossip",
			Long: `The key goes into server { encrypt = "..." } of all servers, or to
"operator gossip keyring install". No agent is asked.`,
			Setup: func(*term.Flags) term.Run {
				return func(_ context.Context, e *term.Env) error {
					key := make([]byte, gossipKeySize)
					rand.Read(key) // never fails
					e.Println(base64.StdEncoding.EncodeToString(key))
					return nil
				}
			},
		},
		gossipCommand("list", "", "List the keys of gossip", "Error listing gossip keys",
			func(a *api.Agent, _ string) (*api.KeyringResponse, error) { return a.ListKeys() }, printKeys),
		gossipCommand("install", "<key>", "Give all servers another key of gossip", "Error installing gossip key", (*api.Agent).InstallKey, printDone("Installed the key on")),
		gossipCommand("use", "<key>", "Encrypt gossip with a key that all servers have", "Error using gossip key", (*api.Agent).UseKey, printDone("The key encrypts on")),
		gossipCommand("remove", "<key>", "Make all servers forget a key of gossip", "Error removing gossip key", (*api.Agent).RemoveKey, printDone("Removed the key from")),
	}
}

// gossipCommand asks the servers, prints the outcome, and then what some of them had
// to say.
func gossipCommand(name, args, short, failed string, do func(*api.Agent, string) (*api.KeyringResponse, error), print func(*term.Env, *api.KeyringResponse)) term.Command {
	c := term.Command{Name: "operator gossip keyring " + name, Short: short}
	if args != "" {
		c.Args, c.MinArgs, c.MaxArgs = args, 1, 1
		c.Long = `The order of a rotation: generate, install, use, remove. Each step asks the
servers of all regions; one that was down has to be given the new key by hand.`
	}
	c.Setup = func(*term.Flags) term.Run {
		return func(_ context.Context, e *term.Env) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			resp, err := do(client.Agent(), e.Arg(0))
			if err != nil {
				return fmt.Errorf("%s: %w", failed, err)
			}
			print(e, resp)
			for _, server := range slices.Sorted(keysOf(resp.Messages)) {
				e.Warnf("%s: %s", server, resp.Messages[server])
			}
			return nil
		}
	}
	return c
}

// printKeys shows the keys, those that encrypt first.
func printKeys(e *term.Env, resp *api.KeyringResponse) {
	keys := slices.SortedFunc(keysOf(resp.Keys), func(a, b string) int {
		if n := resp.PrimaryKeys[b] - resp.PrimaryKeys[a]; n != 0 {
			return n
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	rows := []string{"Key|Servers|Primary On"}
	for _, key := range keys {
		rows = append(rows, term.Row(key, fmt.Sprintf("%d/%d", resp.Keys[key], resp.NumNodes), fmt.Sprintf("%d/%d", resp.PrimaryKeys[key], resp.NumNodes)))
	}
	e.Println(term.Table(rows))
}

func printDone(what string) func(*term.Env, *api.KeyringResponse) {
	return func(e *term.Env, resp *api.KeyringResponse) { e.Printf("%s %d servers\n", what, resp.NumNodes) }
}

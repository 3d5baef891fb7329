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

// gossipCommands generate and rotate the keys that encrypt gossip.
func gossipCommands() []term.Command {
	return []term.Command{
		{
			Name: "operator gossip keyring generate", Local: true, Short: "Generate a gossip encryption key",
			Long: `Set the key as server { encrypt = "..." } on all servers, or install it with
'nomad operator gossip keyring install'. The command does not call an agent.`,
			Setup: func(*term.Flags) term.Run {
				return func(_ context.Context, e *term.Env) error {
					key := make([]byte, gossipKeySize)
					rand.Read(key) // never fails
					e.Println(base64.StdEncoding.EncodeToString(key))
					return nil
				}
			},
		},
		gossipCommand("list", "", "List the gossip encryption keys", "Error listing gossip keys",
			func(a *api.Agent, _ string) (*api.KeyringResponse, error) { return a.ListKeys() }, printKeys),
		gossipCommand("install", "<key>", "Install a gossip encryption key on all servers", "Error installing gossip key", (*api.Agent).InstallKey, printDone("Installed the key on")),
		gossipCommand("use", "<key>", "Make an installed gossip key the primary key", "Error using gossip key", (*api.Agent).UseKey, printDone("Changed the primary key on")),
		gossipCommand("remove", "<key>", "Remove a gossip encryption key from all servers", "Error removing gossip key", (*api.Agent).RemoveKey, printDone("Removed the key from")),
	}
}

// gossipCommand calls the servers and prints the result and their messages.
func gossipCommand(name, args, short, failed string, do func(*api.Agent, string) (*api.KeyringResponse, error), print func(*term.Env, *api.KeyringResponse)) term.Command {
	c := term.Command{Name: "operator gossip keyring " + name, Short: short}
	if args != "" {
		c.Args, c.MinArgs, c.MaxArgs = args, 1, 1
		c.Long = `To rotate keys: generate, install, use, remove. Each step calls the servers of all
regions. Configure the new key by hand on a server that is down.`
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

// printKeys prints the keys, primary keys first.
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

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
		gossipCommand{name: "list", short: "List the gossip encryption keys", failed: "Error listing gossip keys",
			do: func(a *api.Agent, _ string) (*api.KeyringResponse, error) { return a.ListKeys() }, print: printKeys}.command(),
		gossipCommand{name: "install", args: "<key>", short: "Install a gossip encryption key on all servers",
			failed: "Error installing gossip key",
			do:     (*api.Agent).InstallKey, print: printDone("Installed the key on")}.command(),
		gossipCommand{name: "use", args: "<key>", short: "Make an installed gossip key the primary key", failed: "Error using gossip key",
			do: (*api.Agent).UseKey, print: printDone("Changed the primary key on")}.command(),
		gossipCommand{name: "remove", args: "<key>", short: "Remove a gossip encryption key from all servers",
			failed: "Error removing gossip key",
			do:     (*api.Agent).RemoveKey, print: printDone("Removed the key from")}.command(),
	}
}

// gossipCommand calls the servers and prints the result and their messages.
type gossipCommand struct {
	name, args, short, failed string
	do                        func(*api.Agent, string) (*api.KeyringResponse, error)
	print                     func(*term.Env, *api.KeyringResponse)
}

func (g gossipCommand) command() term.Command {
	c := term.Command{Name: "operator gossip keyring " + g.name, Short: g.short}
	if g.args != "" {
		c.Args, c.MinArgs, c.MaxArgs = g.args, 1, 1
		c.Long = `To rotate keys: generate, install, use, remove. Each step calls the servers of all
regions. Configure the new key by hand on a server that is down.`
	}
	c.Setup = func(*term.Flags) term.Run {
		return func(_ context.Context, e *term.Env) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			resp, err := g.do(client.Agent(), e.Arg(0))
			if err != nil {
				return fmt.Errorf("%s: %w", g.failed, err)
			}
			g.print(e, resp)
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
		rows = append(rows, term.Row(key, fmt.Sprintf("%d/%d", resp.Keys[key], resp.NumNodes),
			fmt.Sprintf("%d/%d", resp.PrimaryKeys[key], resp.NumNodes)))
	}
	e.Println(term.Table(rows))
}

func printDone(what string) func(*term.Env, *api.KeyringResponse) {
	return func(e *term.Env, resp *api.KeyringResponse) { e.Printf("%s %d servers\n", what, resp.NumNodes) }
}

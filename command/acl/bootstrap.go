package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxSecret is the maximum size of a file with a secret, in bytes.
const maxSecret = 4 << 10

func bootstrapCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl bootstrap", Args: "[path]", MaxArgs: 1,
		Short: "Create the first token, a management token",
		Long: "A cluster can be bootstrapped once. The servers choose the secret ID, unless a file (- for standard input) has one: a UUID. " +
			"Keep the secret ID.\n\n" +
			"If the token is lost, run the command again: its error has a reset index. Write the index to <data_dir>/server/acl-bootstrap-reset " +
			"on the leader, and run the command once more.",
	}, plain(func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLToken, error) {
		secret, err := bootstrapSecret(e)
		if err != nil {
			return nil, err
		}
		token, _, err := c.ACLTokens().BootstrapOpts(secret, writing(ctx))
		if err != nil {
			return nil, fmt.Errorf("Error bootstrapping: %w", err)
		}
		return token, nil
	}), showToken)
}

// bootstrapSecret reads the secret from the file that the argument names, "" without one.
func bootstrapSecret(e *term.Env) (string, error) {
	if e.Arg(0) == "" {
		return "", nil
	}
	text, err := e.Input(e.Arg(0), maxSecret)
	if err != nil {
		return "", fmt.Errorf("Error reading the secret: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", errors.New("Error reading the secret: the input is empty")
	}
	return secret, nil
}

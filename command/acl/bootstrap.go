package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxSecret bounds what is read as a secret.
const maxSecret = 4 << 10

func bootstrapCommand() term.Command {
	return term.Answered(term.Command{
		Name: "acl bootstrap", Args: "[path]", MaxArgs: 1,
		Short: "Make the first token, which may do everything",
		Long: "It can be made once. A file, or standard input with -, may hold the secret that the token gets: a UUID; otherwise the servers choose it. " +
			"The secret is not shown again to anybody else: keep it.\n" +
			"When it is lost: the error of another try names a reset index. Write it into <data_dir>/server/acl-bootstrap-reset of the leader, and try again.",
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

// bootstrapSecret is the secret that the argument stands for, "" without one.
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
		return "", errors.New("Error reading the secret: there is none")
	}
	return secret, nil
}

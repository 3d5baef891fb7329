package contextfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Limits of a token and of the command that prints it.
const (
	maxToken       = 16 << 10
	commandTimeout = time.Minute // the command may ask for a passphrase
)

// Token returns the token of the context, "" if it has none. The command has the terminal
// for standard input and standard error. No error contains what it printed.
func (c *Context) Token(ctx context.Context) (string, error) {
	switch {
	case c.TokenFile != "":
		text, err := readPrivate(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token of context %q: %w", c.Name, err)
		}
		return c.token(text, c.TokenFile)
	case len(c.TokenCommand) > 0:
		text, err := c.runCommand(ctx)
		if err != nil {
			return "", fmt.Errorf("token_command of context %q: %s: %w", c.Name, c.TokenCommand[0], err)
		}
		return c.token(text, "the output of "+c.TokenCommand[0])
	}
	return "", nil
}

// TokenSource describes where the token comes from. It has no arguments of the command,
// since they may be secret.
func (c *Context) TokenSource() string {
	switch {
	case c.TokenFile != "":
		return "file " + c.TokenFile
	case len(c.TokenCommand) > 0:
		return "command " + filepath.Base(c.TokenCommand[0])
	}
	return "none"
}

// token checks the text of a token.
func (c *Context) token(text []byte, from string) (string, error) {
	t := strings.TrimSpace(string(text))
	if t == "" || len(t) > maxToken || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the token of context %q: %s is not one line with a token", c.Name, from)
	}
	return t, nil
}

func (c *Context) runCommand(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.TokenCommand[0], c.TokenCommand[1:]...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = os.Stdin, os.Stderr, time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, readErr := io.Copy(&out, io.LimitReader(pipe, maxToken+1))
	if out.Len() > maxToken {
		cancel()
	}
	if err := cmd.Wait(); err != nil {
		if out.Len() > maxToken {
			return nil, fmt.Errorf("printed more than %d bytes", maxToken)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no token after %s", commandTimeout)
		}
		return nil, err
	}
	return out.Bytes(), readErr
}

// Package acl holds the commands for access control: bootstrap, policies, tokens, roles,
// auth methods, binding rules, login, and acl explain. They call an agent through package
// api and keep no state. The servers parse and check policies. While login waits for a
// browser, it listens on one local address.
package acl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{bootstrapCommand(),
		policyApplyCommand(), policyDeleteCommand(), policyInfoCommand(), policyListCommand(), policySelfCommand(),
		tokenCreateCommand(), tokenDeleteCommand(), tokenInfoCommand(), tokenListCommand(), tokenSelfCommand(), tokenUpdateCommand(),
		roleCreateCommand(), roleDeleteCommand(), roleInfoCommand(), roleListCommand(), roleUpdateCommand(),
		methodCreateCommand(), methodDeleteCommand(), methodInfoCommand(), methodListCommand(), methodUpdateCommand(),
		ruleCreateCommand(), ruleDeleteCommand(), ruleInfoCommand(), ruleListCommand(), ruleUpdateCommand(), loginCommand(), explainCommand()}
}

func reading(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{}).WithContext(ctx)
}

func writing(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{}).WithContext(ctx)
}

// plain returns ask for a command that has no flags of its own.
func plain[T any](ask term.Ask[T]) func(*term.Flags) term.Ask[T] {
	return func(*term.Flags) term.Ask[T] { return ask }
}

// refusal wraps the error of a write. The message of a 400 is printed as the servers
// wrote it, one fault on a line.
func refusal(doing string, err error) error {
	var e api.UnexpectedResponseError
	if errors.As(err, &e) && e.StatusCode() == http.StatusBadRequest {
		return fmt.Errorf("%s:\n  %s", doing, strings.ReplaceAll(e.Body(), "\n", "\n  "))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

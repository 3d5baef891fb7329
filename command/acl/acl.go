// Package acl holds the commands about access control: the first token, policies,
// tokens, roles, why a caller may do something or not, auth methods, binding rules and
// login. They speak to an agent through package api, keep nothing, and read no rules:
// servers judge them. While login waits for a browser it listens on one local address.
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

func reading(ctx context.Context) *api.QueryOptions { return (&api.QueryOptions{}).WithContext(ctx) }

func writing(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// plain is an Ask of a command without flags of its own.
func plain[T any](ask term.Ask[T]) func(*term.Flags) term.Ask[T] {
	return func(*term.Flags) term.Ask[T] { return ask }
}

// refusal is an error of a write; what servers find wrong with what was written is told
// as they say it, line by line.
func refusal(doing string, err error) error {
	var e api.UnexpectedResponseError
	if errors.As(err, &e) && e.StatusCode() == http.StatusBadRequest {
		return fmt.Errorf("%s:\n  %s", doing, strings.ReplaceAll(e.Body(), "\n", "\n  "))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Package acl answers the RPC methods of access control: ACL tokens, policies, roles, auth
// methods, binding rules and logins.
//
//	JWT or OIDC ─▶ login ─▶ binding rules ─▶ token ─▶ policies, also by roles ─▶ rights
//
// It stores the objects that grant rights. It does not decide what a caller may do: nomad/authz
// and acl do. The method table in nomad/endpoint rejects these calls while access control is
// disabled. The only state is the OIDC logins in progress (login.Service). The package starts no
// goroutine.
package acl

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/login"
)

// Control configures access control and the TTL limits of tokens that expire.
type Control struct {
	Enabled                  bool
	TokenMinTTL, TokenMaxTTL time.Duration // default 1 min and 24 h
}

// Config configures a Service.
type Config struct {
	Control Control
	// BootstrapReset returns the index that an operator wrote to a file to repeat the ACL
	// bootstrap. It is zero without one.
	BootstrapReset func() (uint64, error)
}

// Service handles the RPC methods of access control.
type Service struct {
	*handler.Core
	cfg  Config
	keys *rootkeys.Service
	desk *login.Service
}

// New returns a Service. It sets the defaults of the config.
func New(core *handler.Core, keys *rootkeys.Service, cfg Config) *Service {
	cfg.Control.TokenMinTTL = cmp.Or(cfg.Control.TokenMinTTL, time.Minute)
	cfg.Control.TokenMaxTTL = cmp.Or(cfg.Control.TokenMaxTTL, 24*time.Hour)
	s := &Service{Core: core, cfg: cfg, keys: keys}
	s.desk = login.New(login.Config{Now: core.Now, Signer: assertions{s}})
	return s
}

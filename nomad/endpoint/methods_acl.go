package endpoint

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// aclMethods returns the methods of access control. They fail while access control is disabled.
func (s *Service) aclMethods() []rpc.Method {
	rows := slices.Concat(s.policyMethods(), s.tokenMethods(), s.roleMethods(), s.authMethodMethods(), s.loginMethods(), s.explainMethods())
	for i := range rows {
		rows[i] = rows[i].Requires(s.aclOn)
	}
	return rows
}

func (s *Service) policyMethods() []rpc.Method {
	own := rpc.Managers.Or(rpc.CheckedByHandler("any token for its own policies"))
	return []rpc.Method{
		rpc.Handle("ACL.UpsertPolicies", rpc.Management, rpc.Leader, s.access.UpsertPolicies).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.DeletePolicies", rpc.Management, rpc.Leader, s.access.DeletePolicies).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.ListPolicies", rpc.Token, rpc.Leader, s.access.ListPolicies).Needs(own),
		rpc.Handle("ACL.GetPolicy", rpc.Token, rpc.Leader, s.access.GetPolicy).Needs(own),
		rpc.Handle("ACL.GetPolicies", rpc.Token, rpc.Leader, s.access.GetPolicies).Needs(own),
		rpc.Handle("ACL.GetClaimPolicies", rpc.Token, rpc.Leader, s.access.ClaimPolicies).
			Needs(rpc.CheckedByHandler("a workload for its own policies")),
	}
}

// tokenMethods returns the methods of ACL tokens and one-time tokens.
func (s *Service) tokenMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("ACL.Bootstrap", rpc.Anonymous, rpc.Leader, s.access.Bootstrap).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.UpsertTokens", rpc.Management, rpc.Leader, s.access.UpsertTokens).InAuthoritativeRegion(s.access.UpsertsGlobal),
		rpc.Handle("ACL.DeleteTokens", rpc.Management, rpc.Leader, s.access.DeleteTokens).InAuthoritativeRegion(s.access.DeletesGlobal),
		rpc.Handle("ACL.ListTokens", rpc.Management, rpc.Leader, s.access.ListTokens),
		rpc.Handle("ACL.GetTokens", rpc.Management, rpc.Leader, s.access.GetTokens),
		rpc.Handle("ACL.GetToken", rpc.Token, rpc.Leader, s.access.GetToken).
			Needs(rpc.Managers.Or(rpc.CheckedByHandler("the token itself"))),
		rpc.Handle("ACL.ResolveToken", rpc.Anonymous, rpc.Leader, s.access.ResolveToken),
		rpc.Handle("ACL.UpsertOneTimeToken", rpc.Token, rpc.Leader, s.access.UpsertOneTimeToken).
			Needs(rpc.CheckedByHandler("an ACL token")),
		rpc.Handle("ACL.ExchangeOneTimeToken", rpc.Anonymous, rpc.Leader, s.access.ExchangeOneTimeToken),
		rpc.Handle("ACL.ExpireOneTimeTokens", rpc.Management, rpc.Leader, s.access.ExpireOneTimeTokens),
	}
}

func (s *Service) roleMethods() []rpc.Method {
	own := rpc.Managers.Or(rpc.CheckedByHandler("any ACL token for its own roles"))
	return []rpc.Method{
		rpc.Handle("ACL.UpsertRoles", rpc.Management, rpc.Leader, s.access.UpsertRoles).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.DeleteRolesByID", rpc.Management, rpc.Leader, s.access.DeleteRoles).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.ListRoles", rpc.Token, rpc.Leader, s.access.ListRoles).Needs(own),
		rpc.Handle("ACL.GetRoleByID", rpc.Token, rpc.Leader, s.access.RoleByID).Needs(own),
		rpc.Handle("ACL.GetRoleByName", rpc.Token, rpc.Leader, s.access.RoleByName).Needs(own),
		rpc.Handle("ACL.GetRolesByID", rpc.Token, rpc.Leader, s.access.RolesByID).Needs(own),
	}
}

// authMethodMethods returns the methods of auth methods and their binding rules.
func (s *Service) authMethodMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("ACL.UpsertAuthMethods", rpc.Management, rpc.Leader, s.access.UpsertAuthMethods).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.DeleteAuthMethods", rpc.Management, rpc.Leader, s.access.DeleteAuthMethods).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.ListAuthMethods", rpc.Anonymous, rpc.Leader, s.access.ListAuthMethods),
		rpc.Handle("ACL.GetAuthMethod", rpc.Management, rpc.Leader, s.access.GetAuthMethod),
		rpc.Handle("ACL.GetAuthMethods", rpc.Management, rpc.Leader, s.access.GetAuthMethods),
		rpc.Handle("ACL.UpsertBindingRules", rpc.Management, rpc.Leader, s.access.UpsertBindingRules).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.DeleteBindingRules", rpc.Management, rpc.Leader, s.access.DeleteBindingRules).InAuthoritativeRegion(s.everywhere),
		rpc.Handle("ACL.ListBindingRules", rpc.Management, rpc.Leader, s.access.ListBindingRules),
		rpc.Handle("ACL.GetBindingRule", rpc.Management, rpc.Leader, s.access.GetBindingRule),
		rpc.Handle("ACL.GetBindingRules", rpc.Management, rpc.Leader, s.access.GetBindingRules),
	}
}

// loginMethods returns the methods of a login, which need no token. The leader handles them
// because it keeps the pending OIDC logins. For global tokens it is the leader of the
// authoritative region.
func (s *Service) loginMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("ACL.Login", rpc.Anonymous, rpc.Leader, s.access.Login).InAuthoritativeRegion(s.access.CreatesGlobalToken),
		rpc.Handle("ACL.OIDCAuthURL", rpc.Anonymous, rpc.Leader, s.access.OIDCAuthURL).InAuthoritativeRegion(s.access.CreatesGlobalToken),
		rpc.Handle("ACL.OIDCCompleteAuth", rpc.Anonymous, rpc.Leader, s.access.OIDCCompleteAuth).
			InAuthoritativeRegion(s.access.CreatesGlobalToken),
	}
}

// explainMethods returns the methods that explain who may do what and why. Nomad 2.0 does
// not have them.
func (s *Service) explainMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("ACL.Explain", rpc.Token, rpc.Leader, s.explain.Explain).
			Needs(rpc.Managers.Or(rpc.CheckedByHandler("the caller itself"))),
	}
}

// aclOn returns an error when access control is disabled.
func (s *Service) aclOn() error {
	if !s.cfg.Access.Control.Enabled {
		return apierror.Errorf(400, "%s", apierror.ErrACLDisabled)
	}
	return nil
}

// everywhere reports whether a request about objects that all regions share goes to the
// authoritative region. It does if access control is enabled.
func (s *Service) everywhere(rpc.Request) bool { return s.cfg.Access.Control.Enabled }

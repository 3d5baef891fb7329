// Bootstraps ACLs, and makes a policy, a role and a token.
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	boot, _, err := client.ACLTokens().BootstrapOpts("", nil)
	if err != nil {
		log.Fatal(err)
	}
	write := &api.WriteOptions{AuthToken: boot.SecretID}
	policy := &api.ACLPolicy{Name: "read", Rules: `namespace "default" { policy = "read" }`,
		JobACL: &api.JobACL{Namespace: "default", JobID: "example"}}
	if _, err := client.ACLPolicies().Upsert(policy, write); err != nil {
		log.Fatal(err)
	}
	role, _, err := client.ACLRoles().Create(&api.ACLRole{Name: "readers", Policies: []*api.ACLRolePolicyLink{{Name: "read"}}}, write)
	if err != nil {
		log.Fatal(err)
	}
	token, _, err := client.ACLTokens().Create(&api.ACLToken{Name: "reader", Type: "client", ExpirationTTL: time.Hour,
		Roles: []*api.ACLTokenRoleLink{{ID: role.ID}}}, write)
	if err != nil {
		log.Fatal(err)
	}
	self, _, err := client.ACLTokens().Self(&api.QueryOptions{AuthToken: token.SecretID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(self.AccessorID, self.Policies, self.ExpirationTime)
	if err := login(client, write); err != nil {
		log.Fatal(err)
	}
	if _, err := client.ACLTokens().Delete(token.AccessorID, write); err != nil {
		log.Fatal(err)
	}
}

func login(client *api.Client, write *api.WriteOptions) error {
	method := &api.ACLAuthMethod{Name: "sso", Type: "OIDC", TokenLocality: "global", MaxTokenTTL: time.Hour, Default: true,
		Config: &api.ACLAuthMethodConfig{OIDCDiscoveryURL: "https://sso.example", OIDCClientID: "nomad",
			BoundAudiences: []string{"nomad"}, AllowedRedirectURIs: []string{"http://127.0.0.1:4649/oidc/callback"}}}
	if _, _, err := client.ACLAuthMethods().Create(method, write); err != nil {
		return err
	}
	rule := &api.ACLBindingRule{AuthMethod: "sso", Selector: `"dev" in list.groups`, BindType: "role", BindName: "readers"}
	if _, _, err := client.ACLBindingRules().Create(rule, write); err != nil {
		return err
	}
	url, _, err := client.ACLAuth().GetAuthURL(&api.ACLOIDCAuthURLRequest{AuthMethodName: "sso", RedirectURI: "http://127.0.0.1:4649/oidc/callback"}, nil)
	if err != nil {
		return err
	}
	fmt.Println(url.AuthURL)
	intro := &api.ACLIdentityClientIntroductionTokenRequest{NodeName: "n1", NodePool: "default", TTL: time.Minute}
	made, _, err := client.ACLIdentity().CreateClientIntroductionToken(intro, write)
	if err != nil {
		return err
	}
	fmt.Println(made.JWT)
	return nil
}

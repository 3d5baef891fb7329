package meter

import (
	"strings"
	"unicode"
)

// named are the methods whose metric has another name than the method: a service and a name,
// as Nomad's metrics have them.
var named = map[string]string{
	"ACL.CreateClientIntroductionToken": "acl.create_node_introduction_identity",
	"ACL.DeleteAuthMethods":             "acl.delete_auth_methods_by_name",
	"ACL.DeleteRolesByID":               "acl.delete_roles",
	"ACL.GetAuthMethod":                 "acl.get_auth_method_name",
	"ACL.GetBindingRules":               "acl.get_rules",
	"ACL.GetRoleByID":                   "acl.get_role_id",
	"ACL.GetRoleByName":                 "acl.get_role_name",
	"ACL.GetRolesByID":                  "acl.get_roles_id",
	"ACL.WhoAmI":                        "acl.whoami",
	"Job.Statuses":                      "jobs.statuses",
	"Job.Summary":                       "job_summary.get_job_summary",
	"Namespace.ListNamespaces":          "namespace.list_namespace",
	"NodeIdentity.Get":                  "client_identity.get",
	"NodeIdentity.Renew":                "client_identity.renew",
	"NodeMeta.Apply":                    "client_meta.apply",
	"NodeMeta.Read":                     "client_meta.read",
	"Variables.RenewLock":               "variables.lock.renew",
}

// ServerName returns the name of a method of a server in metrics: "acl.get_policy" for
// "ACL.GetPolicy". The service of nodes is called client.
func ServerName(method string) string {
	if name, ok := named[method]; ok {
		return name
	}
	service, name, _ := strings.Cut(method, ".")
	switch service {
	case "Node":
		service = "Client"
	case "Allocations": // a stream to a task
		service = "Alloc"
	}
	return snake(service) + "." + snake(name)
}

// clientName returns the name of a client's method in metrics.
func clientName(method string) string {
	service, name, _ := strings.Cut(method, ".")
	if service == "ClientAllocations" { // what the agent of the same process asks
		service = "Allocations"
	}
	return snake(service) + "." + snake(name)
}

// endpoint returns the service of a method as the rates of calls name it.
func endpoint(method string) string {
	service, _, _ := strings.Cut(method, ".")
	return snake(service)
}

// Operations that the rates of calls tell apart.
const (
	read  = "read"
	list  = "list"
	write = "write"
)

// lists are the methods that return lists, beside those whose name begins with List.
var lists = map[string]bool{
	"Allocations": true, "Evaluations": true, "Deployments": true, "Statuses": true, "GetAllocs": true,
	"GetClientAllocs": true, "GetJobVersions": true, "PrefixSearch": true, "FuzzySearch": true,
}

// operation returns what a method does.
func operation(method string, writes bool) string {
	_, name, _ := strings.Cut(method, ".")
	switch {
	case writes:
		return write
	case strings.HasPrefix(name, "List"), lists[name]:
		return list
	}
	return read
}

// snake writes camel case in lower case with underscores; a run of capitals stays
// one word.
func snake(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

package meter

import (
	"strings"
	"unicode"
)

// named maps methods to their metric names where the two differ: a service and a name, as in
// Nomad's metrics.
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
	"ClientHostVolume.Create":           "client_host_node.create",
	"ClientHostVolume.Register":         "client_host_node.register",
	"TaskGroupHostVolumeClaim.List":     "task_group_volume_claim.list",
	"Job.Statuses":                      "jobs.statuses",
	"Job.Summary":                       "job_summary.get_job_summary",
	"Namespace.ListNamespaces":          "namespace.list_namespace",
	"NodeIdentity.Get":                  "client_identity.get",
	"NodeIdentity.Renew":                "client_identity.renew",
	"NodeMeta.Apply":                    "client_meta.apply",
	"NodeMeta.Read":                     "client_meta.read",
	"ServiceRegistration.DeleteByID":    "service_registration.delete_id",
	"Variables.RenewLock":               "variables.lock.renew",
}

// ServerName returns the name of a server's method in metrics: "acl.get_policy" for
// "ACL.GetPolicy". The service of nodes is "client".
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
	case "CSIPlugin", "CSIVolume":
		service = strings.TrimPrefix(service, "CSI")
	case "ClientCSI":
		service, name = ofPlugin(service, name)
	}
	return snake(service) + "." + methodName(name)
}

// methodName returns the name of a method in metrics.
func methodName(name string) string {
	switch name {
	case "GetPauseState":
		return "pause_get"
	case "SetPauseState":
		return "pause_set"
	}
	return snake(name)
}

// clientName returns the name of a client's method in metrics.
func clientName(method string) string {
	service, name, _ := strings.Cut(method, ".")
	if service == "ClientAllocations" { // requests of the agent in the same process
		service = "Allocations"
	}
	switch method {
	case "CSI.ControllerAttachVolume":
		return "csi_controller.publish_volume"
	case "CSI.ControllerDetachVolume":
		return "csi_controller.unpublish_volume"
	}
	if service == "CSI" {
		service, name = ofPlugin(service, name)
	}
	return snake(service) + "." + methodName(name)
}

// ofPlugin returns the service and the method of a call of a CSI plugin: the type of the plugin is part of the service.
func ofPlugin(service, method string) (kind, name string) {
	for _, kind := range []string{"Controller", "Node"} {
		if name, ok := strings.CutPrefix(method, kind); ok {
			return service + kind, name
		}
	}
	return service, method
}

// endpoint returns the service of a method in the label of the call rates.
func endpoint(method string) string {
	service, _, _ := strings.Cut(method, ".")
	return snake(service)
}

// The operations in the labels of the call rates.
const (
	read  = "read"
	list  = "list"
	write = "write"
)

// lists holds the methods that return lists and whose name does not begin with List.
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

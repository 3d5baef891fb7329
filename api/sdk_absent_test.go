package api_test

import "strings"

// Reasons for a difference to the official SDK.
const (
	enterprise = "a feature of Nomad Enterprise"
	vault      = "Vault is not supported"
	whole      = "Job.Canonicalize sets the defaults of all blocks of a job"
	sorts      = "slices.SortFunc sorts lists"
	unused     = "neither a request nor a response has it"
	perServer  = "the number of workers is configured with the agent"
	embedded   = "the handle takes the options as a parameter"
	summary    = "the metrics of our agents do not have it"
	onlyHTTP   = "an error of our client is a response with a status and a body; other errors are those of net/http"
)

// absent has the names of the official SDK that ours does not have, or has with another type. A "*" at the
// beginning or at the end matches any text.
var absent = map[string]string{
	"*.ExtraKeysHCL": "the CLI reports unknown keys itself",

	"*License*":        enterprise,
	"*Recommendation*": enterprise,
	"*Sentinel*":       enterprise,
	"*Utilization*":    enterprise,

	"*Vault*": vault,

	"*.Canonicalize":        whole,
	"*.Merge":               whole,
	"*.Copy":                whole + "; a copy is made of the job by JSON",
	"Consul.MergeNamespace": whole,

	"*Sort": sorts,

	"DeploymentSpecificRequest":           unused,
	"SingleDeploymentResponse":            unused,
	"JobSubmissionResponse":               unused,
	"LeadershipTransferResponse":          unused,
	"ResultPaginatorErrorContent":         unused,
	"DeploymentPromoteRequest.PromotedAt": unused,
	"ACLTokens.Upload":                    unused + ": tokens are replicated by servers",

	"Agent.*SchedulerWorkerConfig": perServer,
	"AgentSchedulerWorkerConfig*":  perServer,
	"SchedulerWorkerPoolArgs":      perServer,

	"EvalCountResponse.QueryMeta":    embedded,
	"EvalDeleteRequest.WriteRequest": embedded,
	"*SearchRe*":                     embedded,

	"AggregateSample.*": summary,
	"GaugeValue.*":      summary,
	"SampledValue.*":    summary,
	"Label":             summary,

	"UnexpectedResponseError.*": onlyHTTP,
	"NodeDownErr":               onlyHTTP,

	"Client.GetNodeClientWithTimeout": "Config.HttpClient has a timeout",
	"ClientConnTimeout":               "Config.HttpClient has a timeout",
	"Config.URL":                      "Client.Address returns the address",
	"Event.DeregisteredJob":           "Event.Job returns the job, and Event.Type its end",
	"PeriodicConfig.*":                "servers compute the times of periodic jobs",
	"Allocation.RescheduleInfo":       "servers compute it",
	"Allocation.Stub":                 "Allocations.List returns stubs",
	"DrainStrategy.*":                 "fmt and reflect do it",
	"*.String":                        "fmt prints the values",
	"NewDefaultDisconnectStrategy":    whole,
	"DefaultEphemeralDisk":            whole,
	"MinResources":                    "servers check the resources of jobs",
	"NetworkResource.*":               "the fields have it",
	"NodeDeviceResource.ID":           "the fields have it",
	"JobChildrenSummary.Sum":          "the fields have it",
	"UpdateStrategy.Empty":            "the fields have it",
	"Variable.IsZeroValue":            "the fields have it",
}

// inTable returns the keys of absent that match a name.
func inTable(name string) (keys []string) {
	for key := range absent {
		before, after, isPattern := strings.Cut(key, "*")
		switch {
		case strings.HasPrefix(key, "*") && strings.HasSuffix(key, "*"):
			if strings.Contains(name, strings.Trim(key, "*")) {
				keys = append(keys, key)
			}
		case key == name, isPattern && strings.HasPrefix(name, before) && strings.HasSuffix(name, after):
			keys = append(keys, key)
		}
	}
	return keys
}

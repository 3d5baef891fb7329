package csi

// resourcePrefix begins the names of volumes in nomad.Evaluation.MissingNonNodeResources.
const resourcePrefix = "csi-volume:"

// Resource returns the name of a volume in nomad.Evaluation.MissingNonNodeResources.
func Resource(namespace, id string) string { return resourcePrefix + namespace + ":" + id }

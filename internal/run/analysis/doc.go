// Package analysis looks into trained networks: which regions and words they attend to, and which negatives are hard or
// false.
package analysis

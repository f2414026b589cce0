// Package synth generates a synthetic world to train on where no real data may be shipped: scenes of objects with
// attributes, actions, relations and positions; region features like the features of bottom-up-attention (R regions of
// D channels: non-negative, three quarters zero, correlated, mean 0.45) with boxes and picture sizes; and several
// captions per picture from a grammar with synonyms, paraphrases and dependency trees.
//
// Word frequencies follow Zipf's law. Many pictures have near twins that show the same objects with other attributes or
// relations, so hard negatives mean something: recalls climb from chance with the categories, and the rest of the
// way belongs to models that bind attributes and relations to their objects.
//
// Every picture is a pure function of (seed, split, index). Pictures are generated in parallel blocks and streamed to
// disk, so memory does not grow with their number, and the bytes do not depend on the number of threads.
package synth

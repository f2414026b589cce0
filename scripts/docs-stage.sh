# What the shell blocks of the pages take for granted: data sets, runs and files of the names that they use, small and
# synthetic. scripts/run-docs.sh sources it in an empty folder; $root is the repository.

# Presets as they are, but for sizes: the settings that a variable gives are stronger than those of a file.
export VSETRAIN_TRAIN_MAX_STEPS=2 VSETRAIN_TRAIN_VAL_STEP=1 VSETRAIN_TRAIN_BATCH=20 VSETRAIN_TRAIN_ON_COLLAPSE=warn
export VSETRAIN_TRAIN_LOG_STEP=1 VSETRAIN_RUN_TENSORBOARD=false
export VSETRAIN_MODEL_EMBED_DIM=16 VSETRAIN_MODEL_WORD_DIM=8
export VSETRAIN_MODEL_BERT_LAYERS=2 VSETRAIN_MODEL_BERT_HIDDEN=12 VSETRAIN_MODEL_BERT_HEADS=3
export VSETRAIN_MODEL_BERT_INTERMEDIATE=20 VSETRAIN_MODEL_BERT_POSITIONS=40

world() { # DIR IMAGES FLAGS...
  local dir=$1 images=$2
  shift 2
  vsetrain data synth "$dir" --train "$images" --dev 10 --test 20 --dim 32 --regions 6 "$@"
  vsetrain precompute-svd --data "$dir"
}

train() { # RUN PRESET SETTINGS...
  local run=$1 preset=$2
  shift 2
  vsetrain train --config "$preset" --run "runs/$run" "${@/#/--set=}"
}

make_stage() {
  world data/f30k 1000
  world data/demo 40
  world data/f8k 40 --images
  world data/coco 40 --testall 20
  world data/mine 40
  # a picture of the name that the pages use
  cp -r data/f8k/images pictures
  sed -i '1s/.*/1056338697_4f7d7ce270.jpg/' data/f30k/test_ids.txt
  cp "$(find pictures -name '*.png' | sort | head -1)" pictures/1056338697_4f7d7ce270.jpg
  vsetrain verify --record data/f30k
  cp data/f30k/vocab.json f30k_precomp_vocab.json

  train vsepp-f30k-lseh vsepp/f30k-lseh
  train vsepp-f30k-lmh vsepp/f30k-benchmark train.keep=2
  train vsepp-f30k-rcl vsepp/f30k-benchmark loss.name=rcl
  train vseinf-f30k-lseh vseinf/f30k-lseh-bigru
  train saf saf/f30k-lseh
  train gsmn gsmn/f30k-lseh
  train scan scan/f30k-benchmark-it-avg
  train vsrn-lmh1 vsrn/f30k-benchmark
  train vsrn-lseh vsrn/f30k-lseh
  train lmh1-s7 vsepp/f8k-benchmark
  train lmh1-s8 vsepp/f8k-benchmark seed=8
  train lseh-s7 vsepp/f8k-lseh
  train lseh-s8 vsepp/f8k-lseh seed=8
  train demo demo data.dir=data/demo
  for copy in a=lmh1-s7 b=lseh-s7 vsepp-f30k-benchmark=vsepp-f30k-lmh lmh1=lmh1-s7 lseh=lseh-s7 sgr=saf \
    saf-lmh1=saf vseinf=vseinf-f30k-lseh vseinf-f8k-lseh=vseinf-f30k-lseh vsepp=vsepp-f30k-lseh mine=vsepp-f30k-lseh; do
    cp -a "runs/${copy#*=}" "runs/${copy%=*}"
  done
  for run in runs/*; do touch "$run/staged"; done

  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar
  cp runs/vsepp-f30k-lseh/checkpoints/best.safetensors model.safetensors
  cp runs/vsepp-f30k-lseh/vocab.json vocab.json
  vsetrain eval runs/a --save-scores a.npy
  vsetrain eval runs/b --save-scores b.npy
  vsetrain eval runs/vsepp --split train --save-scores scores.npy
  cp -r "$root/testdata/torch/vseinf-bert/bert" data/bert-base-uncased
  cp -r "$root/docs" docs
  printf 'a red square on a table\ntwo dogs\n' | tee queries.txt >captions.txt
  # word vectors in the format of GloVe, and in that of fastText
  tr -d '"{},' <vocab.json | tr ' ' '\n' | grep -E '^[a-z]+$' | sort -u | awk '{print $1, ".1 .2 .3 .4 .5 .6 .7 .8"}' >glove.840B.300d.txt
  { echo "$(wc -l <glove.840B.300d.txt) 8"; cat glove.840B.300d.txt; } >wiki.en.vec
}
